// Which path each size of an operation would take, on machines that need not be here.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "collectives/planner/planner.hpp"

namespace hymn {

/// What is to be explained. `query.bytes` does not count.
struct PlanTask {
  PlanQuery query;
  PlanContext context;
  bool threads = false;  ///< whether the ranks are threads of one process
  std::size_t min_bytes = 4;
  std::size_t max_bytes = std::size_t{1} << 30;
};

/// One candidate over a range of sizes.
struct PlanOption {
  std::string path;
  std::string algorithm;
  bool in_this_build = true;
  bool can_run = false;
  std::string reason;       ///< why not, at the first size
  std::string held_back;    ///< why it is not taken though it can run; empty: it may be
  double first_us = 0;      ///< predicted for the first size of the range
  double last_us = 0;       ///< and for the last
  std::string source;       ///< where that comes from
  bool is_settled = false;  ///< as Cost
  /// Whether runs of this build may take it.
  bool is_open() const { return can_run && in_this_build && held_back.empty(); }
};

/// Sizes, powers of two, for which the same choice is made.
struct PlanRange {
  std::size_t first_bytes = 0;
  std::size_t last_bytes = 0;
  std::vector<PlanOption> options;  ///< in order of preference
  int build = -1;                   ///< index of what this build takes; -1: nothing can run
  int planned = -1;                 ///< index of the best of all, open or not
};

/// Ascending. A barrier has one range, of 0 bytes.
std::vector<PlanRange> plan_ranges(const PlanTask& task);

}  // namespace hymn
