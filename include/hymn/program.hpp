// What a program communicates, as plain data: docs/functional.md. It belongs to libhymn-functional.
#pragma once

#include "hymn/standard.hpp"  // first

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hymn/array.hpp"
#include "hymn/described.hpp"
#include "hymn/export.hpp"
#include "hymn/functional.hpp"
#include "hymn/request.hpp"

namespace hymn {

enum class NodeKind : std::uint8_t {
  collective,  ///< a functional one
  call,        ///< of ProcessGroup
  wait,        ///< for all that its inputs come from
  view,        ///< another layout of the same memory
  copy,        ///< a contiguous one
  step,        ///< of the program's own: functional::apply()
};
struct NodeTraits {
  std::string_view name{};
};
/// The rows of the table behind traits_of.
constexpr NodeTraits define(NodeKind kind) {
  switch (kind) {
    case NodeKind::collective:
      return {"collective"};
    case NodeKind::call:
      return {"call"};
    case NodeKind::wait:
      return {"wait_tensor"};
    case NodeKind::view:
      return {"view"};
    case NodeKind::copy:
      return {"copy"};
    case NodeKind::step:
      return {"step"};
  }
  return {};
}
constexpr const NodeTraits& traits_of(NodeKind kind) noexcept { return hymn::detail::row_of(kind); }

/// A call of ProcessGroup, without its buffers and its group: as Request. Its inputs and outputs
/// are values of one dimension: one for each buffer, each of them made anew.
struct ProgramCall {
  OpType type = OpType::barrier;
  ReduceOp reduction{};  ///< where it reduces
  int peer = -1;         ///< as Request::peer
  int tag = 0;
  Layout input = Layout::none;
  Layout output = Layout::none;
  std::vector<std::size_t> input_counts{};  ///< of Layout::counted
  std::vector<std::size_t> output_counts{};
  /// So many of the next nodes belong to the same batch, or to the same coalesced call.
  std::size_t following = 0;
};

/// What is done, in the order in which it is done.
struct ProgramNode {
  NodeKind kind = NodeKind::collective;
  std::vector<std::size_t> inputs{};   ///< indices into Program::values
  std::vector<std::size_t> outputs{};  ///< the same; a wait has none
  bool is_backward = false;            ///< made by a Vjp

  functional::Collective collective{};  ///< of a collective
  ProgramCall call{};                   ///< of a call
  std::size_t group = 0;                ///< of a collective or a call: into Program::groups
  std::vector<std::size_t> calls{};     ///< of a wait: nodes of calls for which it waits, too

  Shape strides{};          ///< of a view
  std::int64_t offset = 0;  ///< of a view: of its first element, in the memory of its input

  std::string step{};           ///< of a step: its name
  std::size_t step_number = 0;  ///< of a step: into Captured::steps
};

/// The ranks between which a collective is: with the tag they say which group it is.
struct ProgramGroup {
  std::string tag;
  std::vector<int> ranks;
  friend bool operator==(const ProgramGroup&, const ProgramGroup&) = default;
};

/// The communication of one rank. Each value is an input, or the output of one node.
struct HYMN_API Program {
  int rank = -1;  ///< -1: it makes no calls, so that nothing has told
  std::vector<ProgramGroup> groups{};
  std::vector<ArraySpec> values{};
  std::vector<std::size_t> inputs{};  ///< values that are given
  std::vector<std::size_t> outputs{};
  std::vector<ProgramNode> nodes{};

  /// How many nodes have this name: a collective's ("all_reduce"), a kind's ("wait_tensor").
  std::size_t count(std::string_view name) const;
  /// The same in the backward pass alone, or outside of it.
  std::size_t count(std::string_view name, bool is_backward) const;

  std::string to_json() const;
  /// UsageError, with the place, for what is no program.
  static Program from_json(std::string_view text);
  /// For Graphviz.
  std::string to_dot() const;
};

/// "all_reduce", "wait_tensor", "step 'add'"
HYMN_API std::string name_of(const ProgramNode& node);

struct OptimiseOptions {
  /// Coalesces floating-point sums, averages and products of more than two ranks, too. They have
  /// the same bits where the groups have Reproducibility::placement or better; elsewhere the number
  /// of elements that travel together may choose another algorithm, which adds in another order.
  bool groups_are_reproducible = false;
};

/// What a collective or a call does, and how it reduces, if it does.
HYMN_API OpType type_of(const ProgramNode& node);
HYMN_API ReduceOp reduction_of(const ProgramNode& node);
/// Of its buffers; nothing: it has none on this rank.
HYMN_API std::optional<DataType> dtype_of(const Program& program, const ProgramNode& node);

/// The same program with less waiting: calls are started as early, and waited for as late, as what
/// they take and give lets them be; waits that change nothing are gone; neighbours of one kind,
/// dtype, reduction and group are coalesced. Collectives keep their order. Results have the same
/// bits. Programs with calls of ProcessGroup stay as they are: what such calls take and give lies
/// in memory that the program uses in ways that are not seen.
///
/// All ranks must come to the same calls: with several programs, one for each rank, that is proven
/// (find_mismatch()), and where it does not hold they are returned as they were.
HYMN_API Program optimised(const Program& program, const OptimiseOptions& options = {});
HYMN_API std::vector<Program> optimised(std::span<const Program> of_all_ranks,
                                        const OptimiseOptions& options = {});

/// Whether the programs of all ranks, run together, come to their ends: plays them, without running
/// anything. Calls of a group match in their order. The text says what is wrong, naming the two
/// calls that do not match, those that wait for each other in a circle between groups, or the rank
/// that does not come; empty: they match.
HYMN_API std::string find_mismatch(std::span<const Program> of_all_ranks);

}  // namespace hymn
