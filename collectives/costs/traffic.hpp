// What each collective moves, and in how many rounds: pure arithmetic.
#pragma once

#include "collectives/plan.hpp"
#include "hymn/request.hpp"

namespace hymn {

/// What a rank sends at most, for each byte of the operation's size.
constexpr double bytes_moved(OpType type, int ranks) {
  const double others = ranks - 1;
  switch (type) {
    case OpType::all_reduce:
      return 2 * others / ranks;
    case OpType::broadcast:
    case OpType::reduce:
    case OpType::scan:
    case OpType::exscan:
      return ranks > 1 ? 1 : 0;
    case OpType::gather:
    case OpType::scatter:
    case OpType::all_gather:
    case OpType::reduce_scatter:
    case OpType::all_to_all:
      return others / ranks;
    case OpType::barrier:
    case OpType::send:
    case OpType::recv:
    case OpType::batch:
    case OpType::probe:
      return 0;
  }
  return 0;
}

/// Rounds of a tree over all ranks.
constexpr double tree_rounds(int ranks) { return dissemination_rounds(ranks); }

/// Messages that a rank sends one after the other when each talks to each.
constexpr double pairwise_messages(OpType type, int ranks) {
  if (type == OpType::barrier) return dissemination_rounds(ranks);
  return (type == OpType::all_reduce ? 2.0 : 1.0) * (ranks - 1);
}

/// Whether every rank gets something else, so that nothing can be combined or copied on the way.
constexpr bool is_personal(OpType type) {
  if (has_root(type)) return has_blocks(type);
  return has_input_blocks(type) && has_output_blocks(type);
}

}  // namespace hymn
