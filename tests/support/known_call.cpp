#include "tests/support/known_call.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "tests/support/wild.hpp"

namespace hymn::test {
namespace {

std::size_t total(const std::vector<std::size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

}  // namespace

std::string describe(const CallPlan& plan) {
  std::string text(to_string(plan.type));
  if (plan.type == OpType::barrier) return text;
  text += " of " + std::to_string(plan.count) + " " + std::string(to_string(plan.dtype));
  if (reduces(plan.type)) text += " by " + std::string(to_string(plan.kind));
  if (plan.wild) text += ", any bits";
  if (plan.in_place) text += ", in place";
  if (plan.uneven) text += ", uneven";
  if (plan.listed) text += ", as a list";
  return text + ", offsets " + std::to_string(plan.in_offset) + " and " +
         std::to_string(plan.out_offset) + ", root " + std::to_string(plan.root) + ", salt " +
         std::to_string(plan.salt);
}

std::vector<Cell> cells_of(OpType type) {
  std::vector<Cell> cells;
  for (const DataType dtype : all_dtypes()) {
    if (!reduces(type)) cells.push_back({dtype, ReduceKind::sum});
    for (const ReduceKind kind : all_kinds())
      if (reduces(type) && is_defined(dtype, kind) && !(is_prefix(type) && kind == ReduceKind::avg))
        cells.push_back({dtype, kind});
  }
  return cells;
}

CallPlan Drawer::plan(OpType type, Cell cell, std::size_t count, int ranks) {
  static constexpr std::array<std::size_t, 6> offsets = {0, 1, 4, 16, 48, 0};
  CallPlan plan{.type = type, .dtype = cell.dtype, .kind = cell.kind, .count = count};
  plan.in_offset = one_of(offsets);
  plan.out_offset = one_of(offsets);
  plan.root = static_cast<int>(below(static_cast<std::size_t>(ranks)));
  plan.salt = static_cast<int>(below(200));
  plan.in_place = one_in(2);
  plan.uneven = has_blocks(type) && one_in(4);
  plan.listed = has_blocks(type) && one_in(5);
  plan.wild = is_free_of_order(cell.dtype, cell.kind) && one_in(2);
  return plan;
}

KnownCall::KnownCall(const ProcessGroup& group, const CallPlan& plan)
    : plan_(plan),
      ranks_(ranks_of(group)),
      me_(group.rank()),
      in_counts_(counts_of_side(has_input_blocks(plan.type), true)),
      out_counts_(counts_of_side(has_output_blocks(plan.type), false)),
      together_(shares_memory()) {
  // What the root alone needs is nothing on the others.
  const bool no_input = plan.type == OpType::scatter && is_outside();
  const bool no_output = plan.type == OpType::gather && is_outside();
  const std::size_t in_total = no_input ? 0 : total(in_counts_);
  const std::size_t out_total = no_output ? 0 : total(out_counts_);
  in_ = Buffer(plan.dtype, together_ ? 0 : in_total, plan.in_offset);
  out_ = Buffer(plan.dtype, together_ ? std::max(in_total, out_total) : out_total, plan.out_offset);
  fill_input(in_view(together_ ? out_ : in_));
  before_ = in_;
  in_.protect();
  request_ = make_request();
}

bool KnownCall::is_outside() const {
  return (plan_.type == OpType::gather || plan_.type == OpType::scatter) && !is_root();
}

std::size_t KnownCall::block_count(int from, int to) const {
  const std::size_t count = plan_.count;
  if (!plan_.uneven) return count;
  const std::array<std::size_t, 4> choice = {0, count / 2, count,
                                             count + static_cast<std::size_t>(from + to)};
  return choice[static_cast<std::size_t>(from * 3 + to * 5 + plan_.salt) % choice.size()];
}

// A block of all_to_all has a size for each pair of members, other blocks one for each member.
std::vector<std::size_t> KnownCall::counts_of_side(bool splits, bool input) const {
  if (plan_.type == OpType::barrier) return {};
  const auto size_of_pair = [&](int member) {
    if (plan_.type != OpType::all_to_all) return block_count(member, 0);
    return input ? block_count(me_, member) : block_count(member, me_);
  };
  if (!splits) return {has_blocks(plan_.type) ? size_of_pair(me_) : plan_.count};
  std::vector<std::size_t> counts;
  for (int member = 0; member < static_cast<int>(ranks_.size()); ++member)
    counts.push_back(size_of_pair(member));
  return counts;
}

bool KnownCall::shares_memory() const {
  if (plan_.type == OpType::broadcast) return true;
  // all_to_all can be in place with equal blocks only.
  const bool shifts = plan_.type == OpType::all_to_all && (plan_.uneven || plan_.listed);
  return plan_.in_place && !is_outside() && !shifts;
}

std::size_t KnownCall::first_of(const std::vector<std::size_t>& counts, int index) const {
  const auto own = counts.begin() + index;
  return plan_.listed ? std::accumulate(own + 1, counts.end(), std::size_t{0})
                      : std::accumulate(counts.begin(), own, std::size_t{0});
}

BufferView KnownCall::block(BufferView all, const std::vector<std::size_t>& counts,
                            int index) const {
  return all.slice(first_of(counts, index), counts[static_cast<std::size_t>(index)]);
}

BufferView KnownCall::in_view(Buffer& memory) const {
  const bool in_block = together_ && has_output_blocks(plan_.type) && !has_input_blocks(plan_.type);
  return in_block ? block(memory, out_counts_, me_) : memory.view();
}

BufferView KnownCall::out_view(Buffer& memory) const {
  const bool in_block = together_ && has_input_blocks(plan_.type) && !has_output_blocks(plan_.type);
  return in_block ? block(memory, in_counts_, me_) : memory.view();
}

template <class Blocks, class View>
Blocks KnownCall::laid_out(BufferView all, const std::vector<std::size_t>& counts,
                           std::vector<View>& list) const {
  if (plan_.listed) {
    if (is_outside()) return Blocks();
    each_block(all, counts, [&](int, BufferView block) { list.push_back(block); });
    return Blocks::list(list);
  }
  return plan_.uneven ? Blocks::counted(all, counts) : Blocks::equal(all);
}

Request KnownCall::make_request() {
  const BufferView in = in_view(together_ ? out_ : in_);
  const BufferView out = out_view(out_);
  InputBlocks in_blocks;
  OutputBlocks out_blocks;
  if (has_input_blocks(plan_.type)) in_blocks = laid_out<InputBlocks>(in, in_counts_, in_list_);
  if (has_output_blocks(plan_.type))
    out_blocks = laid_out<OutputBlocks>(out, out_counts_, out_list_);
  const int root = ranks_[static_cast<std::size_t>(plan_.root)];
  const int rank = ranks_[static_cast<std::size_t>(me_)];
  const ReduceOp op = reduces(plan_.type) ? op_of(plan_.kind, plan_.dtype, rank) : ReduceOp();
  switch (plan_.type) {
    case OpType::all_reduce:
      return Request::all_reduce(in, out, op);
    case OpType::broadcast:
      return Request::broadcast(out, root);
    case OpType::reduce:
      return Request::reduce(in, out, root, op);
    case OpType::gather:
      return Request::gather(in, out_blocks, root);
    case OpType::scatter:
      return Request::scatter(in_blocks, out, root);
    case OpType::all_gather:
      return Request::all_gather(in, out_blocks);
    case OpType::reduce_scatter:
      return Request::reduce_scatter(in_blocks, out, op);
    case OpType::scan:
      return Request::scan(in, out, op);
    case OpType::exscan:
      return Request::exscan(in, out, op);
    case OpType::all_to_all:
      return Request::all_to_all(in_blocks, out_blocks);
    case OpType::barrier:
      return Request::barrier();
    case OpType::send:
    case OpType::recv:
    case OpType::batch:
    case OpType::probe:
      break;
  }
  ADD_FAILURE() << to_string(plan_.type) << " is no collective";
  return {};
}

// No two of the blocks of a call hold the same bytes.
void KnownCall::move(BufferView view, int from, int to) const {
  fill(view, ranks_[static_cast<std::size_t>(from)], plan_.salt + 3 * to);
}

template <class Visit>
void KnownCall::each_block(BufferView all, const std::vector<std::size_t>& counts,
                           Visit visit) const {
  for (int index = 0; index < static_cast<int>(counts.size()); ++index)
    visit(index, block(all, counts, index));
}

void KnownCall::fill_input(BufferView view) const {
  const int rank = ranks_[static_cast<std::size_t>(me_)];
  if (view.count == 0) return;
  if (reduces(plan_.type) && plan_.wild) {
    fill_wild(view, rank, plan_.salt);
  } else if (reduces(plan_.type)) {
    fill_numbers(view, plan_.kind, rank, static_cast<std::size_t>(plan_.salt));
  } else if (has_input_blocks(plan_.type)) {
    each_block(view, in_counts_, [&](int to, BufferView block) { move(block, me_, to); });
  } else if (plan_.type != OpType::broadcast || is_root()) {
    move(view, me_, 0);
  }
}

std::span<const int> KnownCall::reduced_ranks() const {
  const auto up_to_me = static_cast<std::size_t>(me_);
  if (plan_.type == OpType::scan) return std::span(ranks_).first(up_to_me + 1);
  return plan_.type == OpType::exscan ? std::span(ranks_).first(up_to_me) : std::span(ranks_);
}

void KnownCall::fill_result(BufferView view, std::size_t first) const {
  const std::span<const int> ranks = reduced_ranks();
  if (ranks.empty()) return;
  const std::size_t shifted = first + static_cast<std::size_t>(plan_.salt);
  const Buffer result =
      plan_.wild ? wild_result(plan_.dtype, plan_.kind, ranks, plan_.salt, view.count, first)
                 : reduction_result(plan_.dtype, plan_.kind, ranks, view.count, shifted);
  if (view.count != 0) std::memcpy(view.data, result.data(), view.bytes());
}

void KnownCall::fill_output(BufferView view) const {
  switch (plan_.type) {
    case OpType::all_reduce:
    case OpType::scan:
    case OpType::exscan:
      return fill_result(view, 0);
    case OpType::reduce:
      if (is_root()) fill_result(view, 0);
      return;
    case OpType::reduce_scatter:
      return fill_result(view, first_of(in_counts_, me_));
    case OpType::broadcast:
      return move(view, plan_.root, 0);
    case OpType::scatter:
      return move(view, plan_.root, me_);
    case OpType::gather:
    case OpType::all_gather:
    case OpType::all_to_all: {
      if (view.count == 0) return;
      const int to = plan_.type == OpType::all_to_all ? me_ : 0;
      return each_block(view, out_counts_,
                        [&](int from, BufferView block) { move(block, from, to); });
    }
    case OpType::barrier:
    case OpType::send:
    case OpType::recv:
    case OpType::batch:
    case OpType::probe:
      return;
  }
}

void KnownCall::check() const {
  Buffer expected(plan_.dtype, out_.count());
  if (together_) fill_input(in_view(expected));
  fill_output(out_view(expected));
  expect_equal(expected, out_);
  expect_equal(before_, in_);
  EXPECT_TRUE(in_.guards_intact());
  EXPECT_TRUE(out_.guards_intact());
}

}  // namespace hymn::test
