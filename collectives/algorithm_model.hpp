// What is known of an algorithm where none lives: its name, what it carries, and what that costs.
#pragma once

#include <string_view>

#include "base/private.hpp"
#include "collectives/op_types.hpp"
#include "collectives/plan_context.hpp"
#include "collectives/plan_query.hpp"
#include "p2p/verdict.hpp"

namespace hymn {

/// "<collective>_<method>", as tables, settings, explanations and dumps call an algorithm. A send
/// or receive by that method is "send_recv_<method>". Static.
HYMN_PRIVATE std::string_view algorithm_name(OpType type, std::string_view method);

/// One for each way to carry out collectives over a path: defined beside the algorithms that go
/// this way, listed once, in collectives/planner/planner.cpp. It is told apart by where it stands.
struct AlgorithmModel {
  using CanRun = Verdict(const PlanQuery&, const PlanContext&);
  using Seconds = double(const PlanQuery&, const PlanContext&);

  std::string_view path;    ///< the mechanism, as HYMN_PATH names it: "shm"
  std::string_view method;  ///< "two_shot"
  OpTypes serves;
  CanRun& can_run;                       ///< asked only for what it serves
  Seconds& seconds;                      ///< of what it can run; more than 0
  MemoryKind memory = MemoryKind::host;  ///< that it reads and writes: host or device
  bool needs_kernels = false;            ///< it cannot run in builds without those of hymn

  std::string_view name_for(OpType type) const { return algorithm_name(type, method); }
};

}  // namespace hymn
