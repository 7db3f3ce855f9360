// One simulation, with options that are known to be right.
#pragma once

#include <functional>
#include <vector>

#include "hymn/simulation.hpp"

namespace hymn::sim {

/// With all that may be left out filled in. UsageError: they contradict each other.
SimulationOptions checked(SimulationOptions options);

/// `possible`: not null: is given every change that there could have been, one at a time.
SimulationResult run(const SimulationOptions& options, const std::function<void(World&)>& rank_main,
                     std::vector<ScheduleChange>* possible = nullptr);

}  // namespace hymn::sim
