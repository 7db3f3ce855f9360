// What hwloc sees of a machine, before the GPU driver is asked.
#pragma once

#include <string>
#include <vector>

#include "topology/gpu_links.hpp"
#include "topology/machine.hpp"

struct hwloc_topology;

namespace hymn {

struct HwlocView {
  Machine machine;             ///< its GPUs are what hwloc knows of NVIDIA's; without links
  std::vector<GpuSite> sites;  ///< of these
  NvlinkMatrix nvlinks;        ///< empty when hwloc knows of none
};

/// Of a loaded topology. Throws ConfigError for machines beyond all measure.
HwlocView view_of(hwloc_topology* topology, std::string source);

/// This host's, with its I/O devices where they are asked for, but without asking drivers of GPUs.
HwlocView view_of_this_host(bool with_devices);

}  // namespace hymn
