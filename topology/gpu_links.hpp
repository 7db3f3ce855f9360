// How the GPUs of a machine reach each other, worked out from where they are.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "topology/gpu_probe.hpp"
#include "topology/machine.hpp"

namespace hymn {

/// Where a GPU hangs on PCIe.
struct GpuSite {
  std::vector<std::uint64_t> bridges;  ///< any name for each, from the host bridge downwards
  double bandwidth = 0;                ///< bytes per second in one direction; 0: not known
};

/// NVLink bandwidths between the ends of links, row by row.
struct NvlinkMatrix {
  static constexpr int other = -1;        ///< a processor, or what is not known
  static constexpr int switch_port = -2;  ///< of an NVSwitch
  std::vector<int> ends;                  ///< index in Machine::gpus, or one of these
  std::vector<double> bandwidths;         ///< ends.size() squared, bytes per second
};

/// Enters NVLink links into machine.gpu_links. Where the two directions of a pair contradict each
/// other the lower bandwidth holds, and a remark says so.
void add_nvlinks(Machine& machine, const NvlinkMatrix& matrix);

/// Fills in all that is still unknown in machine.gpu_links, which gets its full size, from the PCI
/// tree and the packages. `sites` has one entry for each GPU.
void add_pcie_links(Machine& machine, std::span<const GpuSite> sites);

/// Replaces machine.gpus, found on the PCI bus at `sites`, by what the driver tells of them. What
/// the driver does not know is taken from the PCI device of the same address.
void merge_probed_gpus(Machine& machine, std::vector<GpuSite> sites, GpuInventory inventory);

}  // namespace hymn
