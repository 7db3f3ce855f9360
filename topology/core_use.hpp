// Which cores ranks may use, and whether there are enough of them.
#pragma once

#include <span>

#include "topology/machine.hpp"

namespace hymn {

/// One CPU for each core that `cpus` touches: the lowest of its hardware threads. A CPU that the
/// machine does not list counts as a core of its own.
CpuSet cores_of(const Machine& machine, const CpuSet& cpus);

/// Whether every rank can have a core to itself, given the cores that each of them may use.
bool enough_cores(std::span<const CpuSet> cores_of_ranks);

}  // namespace hymn
