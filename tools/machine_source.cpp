// Reads machines that the command line names, and imagines jobs on them.
#include "tools/machine_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "tools/bad_arguments.hpp"
#include "topology/read_machine.hpp"

namespace hymn {

namespace {

std::shared_ptr<const Machine> read_shared(const std::string& path) {
  return std::make_shared<const Machine>(read_machine_file(path));
}

// Cores in the order of their lowest CPU, each cut down to what the machine grants.
std::vector<CpuSet> granted_cores(const Machine& machine) {
  std::vector<CpuSet> cores;
  for (const Core& core : machine.cores) {
    const CpuSet granted =
        machine.allowed_cpus.empty() ? core.cpus : core.cpus & machine.allowed_cpus;
    if (!granted.empty()) cores.push_back(granted);
  }
  std::sort(cores.begin(), cores.end(),
            [](const CpuSet& a, const CpuSet& b) { return a.first() < b.first(); });
  return cores;
}

}  // namespace

MachineSource machine_from_file(const std::string& file_and_hosts) {
  const std::size_t colon = file_and_hosts.rfind(':');
  std::error_code ignored;
  if (colon == std::string::npos || std::filesystem::exists(file_and_hosts, ignored))
    return {read_shared(file_and_hosts), 1};
  const char* begin = file_and_hosts.data() + colon + 1;
  const char* end = file_and_hosts.data() + file_and_hosts.size();
  int hosts = 0;
  const auto [rest, error] = std::from_chars(begin, end, hosts);
  if (error != std::errc() || rest != end || hosts < 1 || hosts > most_hosts)
    throw BadArguments(fmt::format("'{}': after the colon the number of hosts is expected, 1 to {}",
                                   file_and_hosts, most_hosts));
  return {read_shared(file_and_hosts.substr(0, colon)), hosts};
}

MachineSource machine_from_synthetic(const std::string& description) {
  return {std::make_shared<const Machine>(read_synthetic(description)), 1};
}

std::vector<RankRecord> spread_ranks(const Machine& machine, int ranks, int first_rank) {
  const std::vector<CpuSet> cores = granted_cores(machine);
  const auto count = static_cast<std::size_t>(std::max(ranks, 0));
  const bool share_all = count > cores.size();
  std::vector<RankRecord> records(count);
  for (std::size_t i = 0; i < count; ++i) {
    records[i].rank = first_rank + static_cast<int>(i);
    const std::size_t begin = share_all ? 0 : i * cores.size() / count;
    const std::size_t end = share_all ? cores.size() : (i + 1) * cores.size() / count;
    for (std::size_t core = begin; core < end; ++core) records[i].cpus |= cores[core];
  }
  return records;
}

std::string imagined_host_name(const MachineSource& source, int host) {
  if (source.hosts == 1 && !source.machine->name.empty()) return source.machine->name;
  return fmt::format("node{}", host);
}

JobMap imagined_job(const MachineSource& source, int ranks_per_host) {
  JobMap job;
  job.machines.push_back(source.machine);
  job.places = place_on_host(*source.machine, spread_ranks(*source.machine, ranks_per_host));
  // All hosts are alike and hold as many ranks: one summary serves them all.
  const HostSummary summary = summarise(*source.machine, 0, job.places);
  job.world.size = source.hosts * ranks_per_host;
  for (int host = 0; host < source.hosts; ++host) {
    job.host_names.push_back(imagined_host_name(source, host));
    job.world.hosts.push_back(summary);
  }
  job.host_name = job.host_names.front();
  return job;
}

void require_imaginable(std::size_t ranks, int hosts) {
  if (ranks > static_cast<std::size_t>(hosts) * most_ranks_per_host)
    throw BadArguments(fmt::format("{} ranks on {} host(s): at most {} on each are imagined", ranks,
                                   hosts, most_ranks_per_host));
}

}  // namespace hymn
