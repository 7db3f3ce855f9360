#include "collectives/costs/links.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace hymn {
namespace {

/// What a link of that kind carries where the machine's description does not say.
struct LinkRow {
  GpuLinkKind kind;
  double bandwidth;  ///< bytes per second in one direction
};

// One NVLink 4 port has 25 GB/s in each direction, an H100 18 of them; PCIe 4.0 x16 has 32 GB/s
// on the wire, of which 25 GB/s are reached inside a switch and about 20 GB/s through a host
// bridge; 10 GB/s through the link between two packages is what their GPUs reach with peer access.
constexpr std::array links = {
    LinkRow{GpuLinkKind::nvswitch, 450e9},   LinkRow{GpuLinkKind::nvlink, 25e9},
    LinkRow{GpuLinkKind::pcie_switch, 25e9}, LinkRow{GpuLinkKind::host_bridge, 20e9},
    LinkRow{GpuLinkKind::system, 10e9},
};

double usual_bandwidth(GpuLinkKind kind) {
  for (const LinkRow& row : links)
    if (row.kind == kind) return row.bandwidth;
  return links.back().bandwidth;
}

// Ten-gigabit Ethernet: the slowest that clusters are built with, so that nothing is promised.
constexpr double usual_network_bandwidth = 1.25e9;

double known_or_usual(double bandwidth, GpuLinkKind kind) {
  return bandwidth > 0 ? bandwidth : usual_bandwidth(kind);
}

const Machine* machine_of(const PlanContext& context, const HostSummary& host) {
  const auto kind = static_cast<std::size_t>(host.machine);
  return host.machine >= 0 && kind < context.machines.size() ? context.machines[kind].get()
                                                             : nullptr;
}

/// Rings over direct links: together they use all links of every GPU. 0 where some GPU has too few
/// neighbours for a ring.
double direct_ring(const Machine& machine) {
  const std::size_t gpus = machine.gpus.size();
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t from = 0; from < gpus; ++from) {
    std::size_t neighbours = 0;
    double sum = 0;
    for (std::size_t to = 0; to < gpus; ++to) {
      const GpuLink& link = machine.link(from, to);
      if (from == to || link.kind != GpuLinkKind::nvlink) continue;
      ++neighbours;
      sum += known_or_usual(link.bandwidth, link.kind);
    }
    if (neighbours < std::min<std::size_t>(2, gpus - 1)) return 0;
    least = std::min(least, sum);
  }
  return least;
}

double ring_on_host(const PlanContext& context, const HostSummary& host) {
  const double worst = known_or_usual(host.least_bandwidth, host.worst_link);
  if (host.worst_link == GpuLinkKind::nvswitch) return worst;
  const Machine* machine = machine_of(context, host);
  // Which GPUs are in use is known only where all are.
  if (machine == nullptr || machine->gpus.size() != static_cast<std::size_t>(host.gpus) ||
      host.gpus < 2)
    return worst;
  return std::max(worst, direct_ring(*machine));
}

}  // namespace

double peer_bandwidth(const PlanContext& context) {
  const GpuLinkKind worst = context.layout.worst_gpu_link();
  const double bandwidth = known_or_usual(context.layout.least_gpu_bandwidth(), worst);
  // Where all pairs go through one bridge they share it; a ring would cross it once.
  const bool shared = worst == GpuLinkKind::host_bridge || worst == GpuLinkKind::system;
  return shared ? bandwidth / std::max(1.0, context.layout.size / 2.0) : bandwidth;
}

double ring_bandwidth(const PlanContext& context) {
  double least = std::numeric_limits<double>::infinity();
  for (const HostSummary& host : context.layout.hosts)
    if (host.gpus > 1) least = std::min(least, ring_on_host(context, host));
  return least;
}

double network_bandwidth(const PlanContext& context, Interfaces interfaces) {
  double least = std::numeric_limits<double>::infinity();
  for (const HostSummary& host : context.layout.hosts) {
    const Machine* machine = machine_of(context, host);
    double bandwidth = 0;
    if (machine != nullptr) {
      for (const Nic& nic : machine->nics)
        bandwidth = interfaces == Interfaces::all ? bandwidth + nic.bandwidth
                                                  : std::max(bandwidth, nic.bandwidth);
    }
    least = std::min(least, bandwidth > 0 ? bandwidth : usual_network_bandwidth);
  }
  return least;
}

}  // namespace hymn
