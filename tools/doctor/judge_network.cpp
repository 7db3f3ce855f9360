// Judges whether the hosts of a job can reach each other, and whether their clocks agree.
#include <fmt/format.h>

#include <algorithm>

#include "tools/doctor/judge.hpp"

namespace hymn {
namespace {

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

// fe80::/10 is meant to be the same everywhere.
bool is_link_local(const std::string& address) { return address.starts_with("fe80:"); }

std::vector<const NetworkInterface*> outward(const HostFacts& host) {
  std::vector<const NetworkInterface*> result;
  for (const NetworkInterface& interface : host.interfaces)
    if (interface.up && !interface.loopback && !interface.addresses.empty())
      result.push_back(&interface);
  return result;
}

void judge_name(const HostFacts& host, FindingList& findings) {
  const Concerned here{{}, {host.name}};
  const auto& addresses = host.name_addresses;
  if (addresses.empty()) {
    findings.add("network.name-unknown", "the host's name resolves to no address", here);
  } else if (std::all_of(addresses.begin(), addresses.end(), is_loopback)) {
    findings.add("network.name-loopback",
                 fmt::format("the host's name resolves to {}", addresses.front()), here);
  }
}

bool is_steered(const JobFacts& job) {
  const Environment& environment = job.ranks.front().environment;
  return std::any_of(environment.begin(), environment.end(), [](const auto& entry) {
    for (const char* name : {"OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_btl_tcp_if_exclude",
                             "UCX_NET_DEVICES", "NCCL_SOCKET_IFNAME"})
      if (entry.first == name) return true;
    return false;
  });
}

void judge_interfaces(const JobFacts& job, const HostFacts& host, FindingList& findings) {
  const Concerned here{{}, {host.name}};
  const auto interfaces = outward(host);
  if (interfaces.empty()) {
    findings.add(
        "network.only-loopback",
        fmt::format("no interface of {} is up with an address, but the loopback", host.name), here);
    return;
  }
  std::string names;
  for (const NetworkInterface* interface : interfaces)
    names += fmt::format("{}{} {}", names.empty() ? "" : ", ", interface->name,
                         interface->addresses.front());
  if (interfaces.size() > 1 && !is_steered(job)) {
    findings.add("network.many-interfaces",
                 fmt::format("{} has {}, and nothing says which to use", host.name, names), here);
  } else {
    findings.fine("network", names, here);
  }
}

void judge_addresses(const JobFacts& job, FindingList& findings) {
  std::map<std::string, std::vector<std::string>> owners;
  std::map<std::string, std::string> interface_of;
  for (const HostFacts& host : job.hosts) {
    for (const NetworkInterface* interface : outward(host)) {
      for (const std::string& address : interface->addresses) {
        if (is_link_local(address) || is_loopback(address)) continue;
        owners[address].push_back(host.name);
        interface_of[address] = interface->name;
      }
    }
  }
  for (const auto& [address, hosts] : owners)
    if (hosts.size() > 1)
      findings.add("network.address-repeated",
                   fmt::format("{} ({}) is an address of {} hosts", address, interface_of[address],
                               hosts.size()),
                   {{}, hosts});
}

void judge_clocks(const JobFacts& job, FindingList& findings) {
  const auto [first, last] =
      std::minmax_element(job.hosts.begin(), job.hosts.end(),
                          [](const HostFacts& a, const HostFacts& b) { return a.clock < b.clock; });
  const double skew = last->clock - first->clock;
  const auto seen =
      fmt::format("the clocks of {} and {} are {:.1f} s apart", first->name, last->name, skew);
  if (skew > 1) {
    findings.add("clock.skew", seen, {{}, {first->name, last->name}});
  } else {
    findings.fine("clock", seen);
  }
}

}  // namespace

void judge_network(const JobFacts& job, FindingList& findings) {
  if (job.hosts.size() == 1) {
    findings.fine("network", "one host: no rank is reached through the network");
    return;
  }
  for (const HostFacts& host : job.hosts) {
    judge_name(host, findings);
    judge_interfaces(job, host, findings);
  }
  if (!is_steered(job)) judge_addresses(job, findings);
  judge_clocks(job, findings);
}

}  // namespace hymn
