#include "functional/difference.hpp"

#include <algorithm>
#include <optional>

#include "functional/program.hpp"

namespace hymn::functional::detail {
namespace {

const ArraySpec& input_of(const CallOf& call, std::size_t index) {
  return call.program.values[call.what().inputs[index]];
}

std::size_t group_rank(int rank, const std::vector<int>& ranks) {
  return static_cast<std::size_t>(std::ranges::find(ranks, rank) - ranks.begin());
}

std::string moved_text(int from, std::int64_t gives, int to, std::int64_t takes) {
  return "rank " + std::to_string(from) + " sends " + std::to_string(gives) + " to rank " +
         std::to_string(to) + ", which takes " + std::to_string(takes);
}

std::string differ_in_reduction(const ReduceOp& one, const ReduceOp& other) {
  return "they reduce in different ways, by " + std::string(to_string(one.kind())) + " and by " +
         std::string(to_string(other.kind()));
}

// --- Functional collectives

std::string differ_in_shapes(const CallOf& one, const CallOf& other) {
  const std::size_t count = one.what().inputs.size();
  if (count != other.what().inputs.size()) return "they have different numbers of arrays";
  for (std::size_t i = 0; i < count; ++i) {
    if (input_of(one, i).dtype != input_of(other, i).dtype) return "their dtypes differ";
    if (input_of(one, i).shape != input_of(other, i).shape) return "their shapes differ";
  }
  return one.what().collective.dimensions == other.what().collective.dimensions
             ? ""
             : "their dimensions differ";
}

/// So much of dimension 0 goes from each rank to each other one; nothing: equal parts.
std::int64_t split_at(const Splits& splits, std::size_t place, std::int64_t whole,
                      std::size_t ranks) {
  return splits.has_value() ? (*splits)[place] : whole / static_cast<std::int64_t>(ranks);
}

std::string differ_in_splits(const CallOf& from, const CallOf& to, const std::vector<int>& ranks) {
  const std::int64_t gives =
      split_at(from.what().collective.input_splits, group_rank(to.program.rank, ranks),
               input_of(from, 0).shape[0], ranks.size());
  // Without splits as much as is sent.
  const std::int64_t takes =
      split_at(to.what().collective.output_splits, group_rank(from.program.rank, ranks),
               input_of(to, 0).shape[0], ranks.size());
  return gives == takes ? "" : moved_text(from.program.rank, gives, to.program.rank, takes);
}

std::string differ_in_exchange(const CallOf& one, const CallOf& other,
                               const std::vector<int>& ranks) {
  const ArraySpec& a = input_of(one, 0);
  const ArraySpec& b = input_of(other, 0);
  if (a.dtype != b.dtype) return "their dtypes differ";
  if (!std::equal(a.shape.begin() + 1, a.shape.end(), b.shape.begin() + 1, b.shape.end()))
    return "their shapes differ behind dimension 0";
  if (one.what().collective.input_splits.has_value() !=
      other.what().collective.input_splits.has_value())
    return "one of them has split sizes";
  std::string difference = differ_in_splits(one, other, ranks);
  return difference.empty() ? differ_in_splits(other, one, ranks) : difference;
}

std::string differ_as_collectives(const CallOf& one, const CallOf& other,
                                  const std::vector<int>& ranks) {
  const Collective& a = one.what().collective;
  const Collective& b = other.what().collective;
  if (a.operation != b.operation) return "they are different collectives";
  if (reduces(traits_of(a.operation).type) && a.reduction.kind() != b.reduction.kind())
    return differ_in_reduction(a.reduction, b.reduction);
  if (a.root != b.root) return "their roots differ";
  if (a.destinations != b.destinations) return "their destinations differ";
  if (a.operation == Operation::all_to_all_single) return differ_in_exchange(one, other, ranks);
  return differ_in_shapes(one, other);
}

// --- Calls of ProcessGroup

/// Elements that concern that rank, on one side of a call; nothing: there is no such side here.
std::optional<std::int64_t> block_count(const CallOf& call, bool is_input, int rank,
                                        const std::vector<int>& ranks) {
  const ProgramCall& what = call.what().call;
  const std::vector<std::size_t>& buffers = is_input ? call.what().inputs : call.what().outputs;
  if (buffers.empty()) return std::nullopt;
  const auto count = [&](std::size_t buffer) {
    return call.program.values[buffers[buffer]].count();
  };
  switch (is_input ? what.input : what.output) {
    case Layout::none:
      return std::nullopt;
    case Layout::whole:
      return count(0);
    case Layout::equal:
      return count(0) / static_cast<std::int64_t>(ranks.size());
    case Layout::counted:
      return static_cast<std::int64_t>(
          (is_input ? what.input_counts : what.output_counts)[group_rank(rank, ranks)]);
    case Layout::list:
      return count(group_rank(rank, ranks));
  }
  return std::nullopt;
}

std::string differ_in_counts(const CallOf& from, const CallOf& to, const std::vector<int>& ranks) {
  const auto gives = block_count(from, true, to.program.rank, ranks);
  const auto takes = block_count(to, false, from.program.rank, ranks);
  if (!gives || !takes || *gives == *takes) return {};
  // A receive takes up to as much as it has room for.
  if (is_message(from.what().call.type) && *gives < *takes) return {};
  return moved_text(from.program.rank, *gives, to.program.rank, *takes);
}

bool differ_in_form(Layout one, Layout other) {
  return one != other && one != Layout::none && other != Layout::none;
}

std::string differ_as_calls(const CallOf& one, const CallOf& other, const std::vector<int>& ranks) {
  const ProgramCall& a = one.what().call;
  const ProgramCall& b = other.what().call;
  const bool are_messages = is_message(a.type) && is_message(b.type);
  if (a.type != b.type && !are_messages) return "they are different collectives";
  const auto dtype = dtype_of(one.program, one.what());
  const auto other_dtype = dtype_of(other.program, other.what());
  if (dtype && other_dtype && *dtype != *other_dtype) return "their dtypes differ";
  if (!are_messages) {
    if (a.reduction.kind() != b.reduction.kind())
      return differ_in_reduction(a.reduction, b.reduction);
    if (a.peer != b.peer) return "their roots differ";
    if (a.following != b.following) return "they are coalesced with others in different ways";
    if (differ_in_form(a.input, b.input) || differ_in_form(a.output, b.output))
      return "the forms of their blocks differ";
  }
  std::string difference = differ_in_counts(one, other, ranks);
  return difference.empty() ? differ_in_counts(other, one, ranks) : difference;
}

}  // namespace

bool one_tells_all(const CallOf& call) {
  const ProgramNode& node = call.what();
  if (node.kind != NodeKind::call) return node.collective.operation != Operation::all_to_all_single;
  const auto is_alike = [](Layout layout) {
    return layout != Layout::counted && layout != Layout::list;
  };
  return traits_of(node.call.type).root == RootRole::none && is_alike(node.call.input) &&
         is_alike(node.call.output);
}

std::string difference_of(const CallOf& one, const CallOf& other, const std::vector<int>& ranks) {
  const bool is_call = one.what().kind == NodeKind::call;
  // Of the two kinds only the operation is compared: one functional call may be several of these.
  if (is_call != (other.what().kind == NodeKind::call))
    return type_of(one.what()) == type_of(other.what()) ? "" : "they are different collectives";
  return is_call ? differ_as_calls(one, other, ranks) : differ_as_collectives(one, other, ranks);
}

}  // namespace hymn::functional::detail
