// What is asked of a path: all of a request that its cost, and whether it can be taken, depends on.
#pragma once

#include <cstddef>
#include <optional>

#include "hymn/request.hpp"

namespace hymn {

/// What is asked of a path. `bytes` is nccl-tests' size of the operation: the larger of a rank's
/// input and output.
struct PlanQuery {
  OpType type = OpType::all_reduce;
  DataType dtype = DataType::float32;
  ReduceKind op = ReduceKind::sum;
  std::size_t bytes = 0;
  MemoryKind memory = MemoryKind::host;
};

/// What a request asks, from what every member sees alike; nothing where each knows its own lists
/// or counts only.
std::optional<PlanQuery> plan_query(const Request& request, int ranks);

}  // namespace hymn
