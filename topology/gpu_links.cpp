#include "topology/gpu_links.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hymn {
namespace {

/// No link is as fast as this; what claims to be is damaged.
constexpr double implausible_bandwidth = 1e14;

/// Gives the matrix its full size and its diagonal.
void prepare(Machine& machine) {
  const std::size_t n = machine.gpus.size();
  machine.gpu_links.resize(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    machine.link(i, i) = {GpuLinkKind::self, 0, true};
  }
}

/// The NVLink matrix as seen from GPUs.
struct GpuBandwidths {
  std::vector<double> direct;     ///< GPU to GPU, row by row
  std::vector<double> to_switch;  ///< of each GPU to all switch ports together
  std::vector<double> from_switch;
};

GpuBandwidths gather(const NvlinkMatrix& matrix, std::size_t gpus) {
  GpuBandwidths found{std::vector<double>(gpus * gpus), std::vector<double>(gpus),
                      std::vector<double>(gpus)};
  const std::size_t n = matrix.ends.size();
  for (std::size_t row = 0; row < n; ++row) {
    for (std::size_t column = 0; column < n; ++column) {
      const int from = matrix.ends[row];
      const int to = matrix.ends[column];
      const double bandwidth = matrix.bandwidths[row * n + column];
      if (from >= 0 && to >= 0) {
        double& sum =
            found.direct[static_cast<std::size_t>(from) * gpus + static_cast<std::size_t>(to)];
        sum = std::max(sum, bandwidth);
      } else if (from >= 0 && to == NvlinkMatrix::switch_port) {
        found.to_switch[static_cast<std::size_t>(from)] += bandwidth;
      } else if (to >= 0 && from == NvlinkMatrix::switch_port) {
        found.from_switch[static_cast<std::size_t>(to)] += bandwidth;
      }
    }
  }
  return found;
}

/// Levels of the tree that both sites lie below.
std::size_t common_bridges(const GpuSite& a, const GpuSite& b) {
  const auto end =
      std::mismatch(a.bridges.begin(), a.bridges.end(), b.bridges.begin(), b.bridges.end());
  return static_cast<std::size_t>(end.first - a.bridges.begin());
}

GpuLinkKind pcie_kind(const Gpu& a, const Gpu& b, std::size_t common) {
  if (common > 1) return GpuLinkKind::pcie_switch;
  if (common == 1 || (a.numa >= 0 && a.numa == b.numa)) return GpuLinkKind::host_bridge;
  if (a.package < 0 || b.package < 0) return GpuLinkKind::unknown;
  return a.package == b.package ? GpuLinkKind::host_bridge : GpuLinkKind::system;
}

bool over_pcie(GpuLinkKind kind) {
  return kind == GpuLinkKind::pcie_switch || kind == GpuLinkKind::host_bridge ||
         kind == GpuLinkKind::system;
}

/// The device of that address, or the size of `gpus`.
std::size_t find(const std::vector<Gpu>& gpus, const std::optional<PciAddress>& pci) {
  const auto same = [&](const Gpu& gpu) { return pci && gpu.pci == pci; };
  return static_cast<std::size_t>(std::find_if(gpus.begin(), gpus.end(), same) - gpus.begin());
}

/// The index of the NUMA node that the kernel calls `os_index`: drivers speak of that one.
int node_of_kernel(const Machine& machine, int os_index) {
  for (std::size_t i = 0; i < machine.numa_nodes.size(); ++i) {
    if (os_index >= 0 && machine.numa_nodes[i].os_index == os_index) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

void add_nvlinks(Machine& machine, const NvlinkMatrix& matrix) {
  prepare(machine);
  const auto damaged = [](double value) { return !(value >= 0 && value < implausible_bandwidth); };
  if (matrix.bandwidths.size() != matrix.ends.size() * matrix.ends.size() ||
      std::any_of(matrix.bandwidths.begin(), matrix.bandwidths.end(), damaged)) {
    machine.remarks.emplace_back("the NVLink matrix is damaged and was left out");
    return;
  }
  const std::size_t n = machine.gpus.size();
  const GpuBandwidths found = gather(matrix, n);
  bool contradictory = false;
  for (std::size_t i = 0; i < n; ++i) {
    const double to_switch = std::min(found.to_switch[i], found.from_switch[i]);
    contradictory |= found.to_switch[i] != found.from_switch[i];
    for (std::size_t j = 0; j < n; ++j) {
      if (i == j) continue;
      const double direct = std::min(found.direct[i * n + j], found.direct[j * n + i]);
      contradictory |= found.direct[i * n + j] != found.direct[j * n + i];
      const double switched = std::min({to_switch, found.to_switch[j], found.from_switch[j]});
      if (switched > 0) {
        machine.link(i, j) = {GpuLinkKind::nvswitch, switched, std::nullopt};
      } else if (direct > 0) {
        machine.link(i, j) = {GpuLinkKind::nvlink, direct, std::nullopt};
      }
    }
  }
  if (contradictory) {
    machine.remarks.emplace_back(
        "the NVLink matrix differs by direction; the lower bandwidth of each pair was taken");
  }
}

void add_pcie_links(Machine& machine, std::span<const GpuSite> sites) {
  prepare(machine);
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
    for (std::size_t j = 0; j < machine.gpus.size(); ++j) {
      GpuLink& link = machine.link(i, j);
      if (link.kind == GpuLinkKind::unknown) {
        link.kind = pcie_kind(machine.gpus[i], machine.gpus[j], common_bridges(sites[i], sites[j]));
      }
      if (link.bandwidth == 0 && over_pcie(link.kind)) {
        link.bandwidth = std::min(sites[i].bandwidth, sites[j].bandwidth);
      }
    }
  }
}

void merge_probed_gpus(Machine& machine, std::vector<GpuSite> sites, GpuInventory inventory) {
  const std::vector<Gpu> devices = std::exchange(machine.gpus, std::move(inventory.gpus));
  machine.gpu_links = std::move(inventory.links);
  machine.remarks.insert(machine.remarks.end(), inventory.remarks.begin(), inventory.remarks.end());
  sites.resize(devices.size());
  std::vector<GpuSite> found(machine.gpus.size());
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
    Gpu& gpu = machine.gpus[i];
    const std::size_t device = find(devices, gpu.pci);
    if (device == devices.size()) {
      gpu.numa = node_of_kernel(machine, gpu.numa);
      continue;
    }
    gpu.numa = devices[device].numa;
    gpu.package = devices[device].package;
    found[i] = sites[device];
  }
  if (machine.gpus.empty() && !devices.empty()) {
    machine.remarks.push_back(
        fmt::format("{} NVIDIA GPU(s) on the PCI bus cannot be used", devices.size()));
  }
  add_pcie_links(machine, found);
}

}  // namespace hymn
