// What each collective moves, and in how many rounds: pure arithmetic.
#pragma once

#include "collectives/plan.hpp"
#include "collectives/plan_query.hpp"
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

/// Whether of an all_reduce of so many bytes every rank gets all that the others have, and computes
/// all of the result, for each message costs more than its bytes. What a function of the program's
/// makes of them one rank alone computes, so that all have the same.
constexpr bool is_reduced_everywhere(OpType type, ReduceKind op, std::size_t bytes, int ranks) {
  constexpr std::size_t most = 4096;
  constexpr std::size_t most_of_all = std::size_t{64} << 10;
  return type == OpType::all_reduce && op != ReduceKind::custom && op != ReduceKind::opaque &&
         bytes <= most && bytes * static_cast<std::size_t>(ranks) <= most_of_all;
}

/// The same for what is asked.
constexpr double pairwise_messages(const PlanQuery& query, int ranks) {
  if (is_reduced_everywhere(query.type, query.op, query.bytes, ranks)) return ranks - 1;
  return pairwise_messages(query.type, ranks);
}

/// Whether every rank gets something else, so that nothing can be combined or copied on the way.
constexpr bool is_personal(OpType type) {
  if (has_root(type)) return has_blocks(type);
  return has_input_blocks(type) && has_output_blocks(type);
}

}  // namespace hymn
