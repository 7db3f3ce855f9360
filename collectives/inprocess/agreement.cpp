// Whether the calls of the members fit together. Ranks that read each other's memory must know this
// before they read.

#include <fmt/format.h>

#include "collectives/block_layout.hpp"
#include "collectives/call_label.hpp"
#include "collectives/inprocess/parts.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

[[noreturn]] void disagree(const Call& mine, int member, std::string_view what,
                           std::string_view here, std::string_view there) {
  throw UsageError(fmt::format("{}: {} differs: {} here, {} on group rank {}",
                               to_string(mine.request->type), what, here, there, member),
                   {.remedy = "make the same call on every rank of the group"});
}

[[noreturn]] void disagree_on_whole(const Call& mine, int member) {
  throw UsageError(
      fmt::format("{}: what is coalesced differs here and on group rank {}",
                  to_string(mine.request->type), member),
      {.remedy = "coalesce the same calls, with the same counts and in the same order, "
                 "on every rank of the group"});
}

void require_equal(const Call& mine, int member, std::string_view what, std::string_view here,
                   std::string_view there) {
  if (here != there) disagree(mine, member, what, here, there);
}

void require_equal(const Call& mine, int member, std::string_view what, std::size_t here,
                   std::size_t there) {
  if (here != there) disagree(mine, member, what, std::to_string(here), std::to_string(there));
}

/// One block, as this rank and `member` see it.
template <class Here, class There>
void check_block(const Call& mine, GroupShape shape, int member, const Blocks<Here>& here,
                 const Blocks<There>& there) {
  const Here block = here.block(member, shape.size);
  const There as_there = there.block(shape.rank, shape.size);
  require_equal(mine, member, "count", block.count, as_there.count);
  // Else check_common_layout. Who shadows coalesced calls does not know their layouts.
  if (form_of_blocks(*mine.request) == 0 || mine.whole_label != 0) return;
  const std::uint64_t own = told_order(here, block);
  const std::uint64_t other = told_order(there, as_there);
  if (change_places(own, other))
    disagree(mine, member, "layout of a block in memory", tell_block_order(own),
             tell_block_order(other));
}

void check_common_layout(const Call& mine, int member, const Request& there) {
  const Request& here = *mine.request;
  if (mine.whole_label != 0 || (!has_strides(here) && !has_strides(there))) return;
  if (common_order(here) != common_order(there))
    disagree(mine, member, "layout", tell_layout(shaped_buffer(here)),
             tell_layout(shaped_buffer(there)));
}

/// What `member`'s call holds for this rank against what this rank has room for; and what this rank
/// gives against the room there, where `member` does not find that out, or may move it first.
void check_counts(const PeerCalls& peers, GroupShape shape, const Call& mine, int member) {
  const Request& here = *mine.request;
  const Request& there = peers.request(member);
  if (!has_blocks(here.type)) {
    require_equal(mine, member, "count", here.inputs.flat().count, there.inputs.flat().count);
    return;
  }
  const RootRole root = traits_of(here.type).root;
  const bool is_root = shape.rank == mine.peer;
  const bool from_root = member == mine.peer;
  const bool takes = root == RootRole::none || (root == RootRole::takes ? is_root : from_root);
  const bool gives = root == RootRole::takes ? from_root
                     : root == RootRole::gives
                         ? is_root
                         : has_input_blocks(here.type) && has_output_blocks(here.type);
  if (takes) check_block(mine, shape, member, here.outputs, there.inputs);
  if (gives) check_block(mine, shape, member, here.inputs, there.outputs);
}

/// Of one element of what a call is about.
std::size_t bytes_of(const Request& request) {
  return all_have_outputs(request.type) ? request.outputs.element_bytes()
                                        : request.inputs.element_bytes();
}

}  // namespace

void check_agreement(const PeerCalls& peers, GroupShape shape, const Call& mine) {
  const Request& here = *mine.request;
  for (int member = 0; member < shape.size; ++member) {
    const Request& there = peers.request(member);
    require_equal(mine, member, "operation", to_string(here.type), to_string(there.type));
    if (here.type == OpType::barrier) {
      if (mine.whole_label != peers.whole_label(member)) disagree_on_whole(mine, member);
      continue;
    }
    require_equal(mine, member, "dtype", to_string(dtype_of(here)), to_string(dtype_of(there)));
    require_equal(mine, member, "size of an element", bytes_of(here), bytes_of(there));
    if (reduces(here.type))
      require_equal(mine, member, "reduction", to_string(here.op.kind()),
                    to_string(there.op.kind()));
    if (mine.peer != peers.peer(member))
      disagree(mine, member, "root", std::to_string(here.peer), std::to_string(there.peer));
    check_common_layout(mine, member, there);
    check_counts(peers, shape, mine, member);
    if (mine.whole_label != peers.whole_label(member)) disagree_on_whole(mine, member);
  }
}

}  // namespace hymn
