// Which failures are tried where. The short lists go round through deaths, states, paths and
// victims so that each death meets each path and each state; the long one has every combination.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "tests/fault/job_run.hpp"
#include "tests/fault/scene.hpp"

namespace hymn::test {

struct FaultPlan {
  std::string name;
  JobPlan job;
  std::vector<Scene> scenes;
  std::string setting{};  ///< of the job's environment: "NAME=VALUE"

  /// Who is left after a scene.
  std::vector<int> survivors(std::size_t scene) const;
};

/// For gtest.
void PrintTo(const FaultPlan& plan, std::ostream* out);

std::vector<FaultPlan> local_plans();
std::vector<FaultPlan> hosts_plans();
std::vector<FaultPlan> slurm_plans();
std::vector<FaultPlan> every_plan();

}  // namespace hymn::test
