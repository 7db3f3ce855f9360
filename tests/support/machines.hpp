// Machines made up for tests.
#pragma once

#include <memory>

#include "topology/machine.hpp"

namespace hymn::test {

struct Box {
  int packages = 1;
  int numa_nodes = 1;                                   ///< of each package
  int cores = 4;                                        ///< of each NUMA node
  int threads = 1;                                      ///< of each core
  int gpus = 0;                                         ///< near each NUMA node
  GpuLink link = {GpuLinkKind::nvswitch, 400e9, true};  ///< between any two
};

/// CPUs are numbered through, those of one core next to each other. Passes check_machine.
Machine make_box(const Box& box);
std::shared_ptr<const Machine> share_box(const Box& box);

}  // namespace hymn::test
