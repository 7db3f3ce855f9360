// Whether the calls of the members fit together. Ranks that read each other's memory must know this
// before they read.

#include <fmt/format.h>

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

void require_equal(const Call& mine, int member, std::string_view what, std::string_view here,
                   std::string_view there) {
  if (here != there) disagree(mine, member, what, here, there);
}

void require_equal(const Call& mine, int member, std::string_view what, std::size_t here,
                   std::size_t there) {
  if (here != there) disagree(mine, member, what, std::to_string(here), std::to_string(there));
}

/// The block that `member`'s call holds for this rank against what this rank has room for or gives.
void check_counts(const PeerCalls& peers, GroupShape shape, const Call& mine, int member) {
  const Request& here = *mine.request;
  const Request& there = peers.request(member);
  const bool from_root = member == mine.peer;
  switch (here.type) {
    case OpType::all_reduce:
    case OpType::reduce:
    case OpType::broadcast:
      require_equal(mine, member, "count", here.inputs.flat().count, there.inputs.flat().count);
      break;
    case OpType::gather:
      if (from_root)
        require_equal(mine, member, "count", here.inputs.flat().count,
                      there.outputs.block(shape.rank, shape.size).count);
      if (shape.rank == mine.peer)
        require_equal(mine, member, "count", here.outputs.block(member, shape.size).count,
                      there.inputs.flat().count);
      break;
    case OpType::scatter:
      if (from_root)
        require_equal(mine, member, "count", here.outputs.flat().count,
                      there.inputs.block(shape.rank, shape.size).count);
      if (shape.rank == mine.peer)
        require_equal(mine, member, "count", here.inputs.block(member, shape.size).count,
                      there.outputs.flat().count);
      break;
    case OpType::all_gather:
      require_equal(mine, member, "count", here.outputs.block(member, shape.size).count,
                    there.inputs.flat().count);
      break;
    case OpType::reduce_scatter:
      require_equal(mine, member, "count", here.outputs.flat().count,
                    there.inputs.block(shape.rank, shape.size).count);
      break;
    case OpType::all_to_all:
      require_equal(mine, member, "count", here.outputs.block(member, shape.size).count,
                    there.inputs.block(shape.rank, shape.size).count);
      // One of the two may move the blocks of both.
      require_equal(mine, member, "count", here.inputs.block(member, shape.size).count,
                    there.outputs.block(shape.rank, shape.size).count);
      break;
    default:
      break;
  }
}

/// The dtype that a call is about; scatter and gather have one side on some ranks only.
DataType dtype_of(const Request& request) {
  return request.type == OpType::scatter ? request.outputs.dtype() : request.inputs.dtype();
}

}  // namespace

void check_agreement(const PeerCalls& peers, GroupShape shape, const Call& mine) {
  const Request& here = *mine.request;
  for (int member = 0; member < shape.size; ++member) {
    const Request& there = peers.request(member);
    require_equal(mine, member, "operation", to_string(here.type), to_string(there.type));
    if (here.type == OpType::barrier) continue;
    require_equal(mine, member, "dtype", to_string(dtype_of(here)), to_string(dtype_of(there)));
    if (reduces(here.type))
      require_equal(mine, member, "reduction", to_string(here.op.kind()),
                    to_string(there.op.kind()));
    if (mine.peer != peers.peer(member))
      disagree(mine, member, "root", std::to_string(here.peer), std::to_string(there.peer));
    check_counts(peers, shape, mine, member);
  }
}

}  // namespace hymn
