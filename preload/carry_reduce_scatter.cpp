// Reductions of which each rank gets a block.
#include "preload/blocks.hpp"

namespace hymn::preload {
namespace {

/// `in`: of all ranks, in place where the output is; `out`: the block of this rank.
void reduce_scatter(ProcessGroup& group, const Blocks& in, const Elements& out,
                    const Reduction& reduction) {
  Scratch scratch;
  Landing landing(out, scratch);
  const std::byte* const data = all_apart(in, landing.data(), out.bytes(), scratch);
  const std::size_t each = out.info.size;
  const auto given = reduction.view<ConstBufferView>(data, in.bytes() / each);
  const auto got = reduction.view<BufferView>(landing.data(), out.count);
  if (in.are_alike()) {
    group.reduce_scatter(given, got, reduction.op());
  } else {
    std::vector<std::size_t> counts;
    for (const std::size_t bytes : in.sizes()) counts.push_back(bytes / each);
    group.reduce_scatter(given, counts, got, reduction.op());
  }
  landing.store();
}

/// `bytes` and `blocks`: for Attempt::judge.
Outcome reduce_scatter(Attempt& call, const Blocks& in, const Elements& out, MPI_Op op,
                       std::size_t bytes, int blocks) {
  const Reduction reduction(op, out.type, out.info, call.session().keeps_bits());
  Reason reason = call.judge(reduction);
  if (reason == Reason::carried) reason = call.judge(bytes, blocks);
  if (reason != Reason::carried) return Attempt::left(reason);
  return call.run([&](ProcessGroup& group) { reduce_scatter(group, in, out, reduction); });
}

}  // namespace

Outcome attempt(Tag<Call::Reduce_scatter_block>, Attempt& call, const void* in, void* out,
                int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  if (!call.find(comm)) return call.left();
  if (out == MPI_IN_PLACE || count < 0) return Attempt::left(Reason::bad_arguments);
  const Blocks from = Blocks::equal(call, in == MPI_IN_PLACE ? out : in, count, type);
  if (!from.is_sound()) return Attempt::left(Reason::bad_arguments);
  Elements to = from.of(0);
  to.data = out;
  if (!to.is_sound()) return Attempt::left(Reason::bad_arguments);
  return reduce_scatter(call, from, to, op, from.each_bytes(), call.size());
}

Outcome attempt(Tag<Call::Reduce_scatter>, Attempt& call, const void* in, void* out,
                const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  if (!call.find(comm)) return call.left();
  if (out == MPI_IN_PLACE || counts == nullptr) return Attempt::left(Reason::bad_arguments);
  const Blocks from = Blocks::uneven(call, in == MPI_IN_PLACE ? out : in, counts, nullptr, type);
  if (!from.is_sound()) return Attempt::left(Reason::bad_arguments);
  Elements to = from.of(call.own_place());
  to.data = out;
  if (!to.is_sound()) return Attempt::left(Reason::bad_arguments);
  return reduce_scatter(call, from, to, op, from.bytes(), 1);
}

}  // namespace hymn::preload
