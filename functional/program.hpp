// What the sources that read programs have in common.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "hymn/functional.hpp"
#include "hymn/program.hpp"

namespace hymn::functional::detail {

/// UsageError unless each value is an input or made by one node, before another takes it, and each
/// node gives what its like gives. Programs may come from files.
void require_sound(const Program& program);

/// A collective, or a call of ProcessGroup.
inline bool makes_call(const ProgramNode& node) {
  return node.kind == NodeKind::collective || node.kind == NodeKind::call;
}

/// Whether a call reads what this rank gives it.
constexpr bool takes_inputs(OpType type, bool is_root) {
  return uses_inputs(type, is_root) && (is_root || !traits_of(type).one_buffer);
}

/// For shapes alone.
inline Where where_of(const ProgramGroup& group, int rank) {
  return Where::ranks_alone(group.ranks, group.tag, rank);
}

inline constexpr std::size_t no_node = static_cast<std::size_t>(-1);

/// For each value, the node that makes it; no_node: it is an input.
std::vector<std::size_t> makers_of(const Program& program);

/// For each value, the collective that must have ended before it is there: that makes it, or of
/// whose result it is a view; no_node: it is there when it is made.
std::vector<std::size_t> flights_of(const Program& program);

/// "node 3 (all_reduce of float32 [4])"
std::string described(const Program& program, std::size_t node);

}  // namespace hymn::functional::detail
