// Ranks of one host that see different GPUs: many launchers hide from a rank what it is not to use.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "topology/machine.hpp"

namespace hymn {

/// By value of CUDA_VISIBLE_DEVICES: the GPUs that ranks with it see, as indices in Machine::gpus,
/// in the order in which these ranks number them. Empty where all see the same.
using GpuViews = std::map<std::string, std::vector<int>>;

/// The value in this process; one that is set to nothing differs from one that is not set.
std::string visible_gpus();

/// Adds to `machine` what it lacks of the GPUs of `other`, the same host as another rank sees it,
/// and returns where all of those are then. Links between GPUs that nobody sees together are
/// unknown.
std::vector<int> merge_gpus(Machine& machine, const Machine& other);

}  // namespace hymn
