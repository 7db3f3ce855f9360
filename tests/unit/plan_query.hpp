// What the planner is asked.
#pragma once

#include <cstddef>

#include "collectives/planner/planner.hpp"

namespace hymn::test {

/// An all_reduce of bfloat16 in the memory of GPUs.
inline PlanQuery on_device(std::size_t bytes, ReduceKind op = ReduceKind::sum) {
  return {.dtype = DataType::bfloat16, .op = op, .bytes = bytes, .memory = MemoryKind::device};
}

}  // namespace hymn::test
