// Collectives with an equal block for each rank.
#include <cstring>

#include "preload/attempt.hpp"
#include "preload/reductions.hpp"

namespace hymn::preload {
namespace {

/// Blocks of the program: `count` elements of each rank.
struct EqualBlocks {
  Elements each;
  std::size_t ranks = 0;

  std::size_t bytes() const { return each.bytes() * ranks; }
  Elements all() const { return {each.data, each.count * ranks, each.type, each.info}; }
  Elements of(int rank) const {
    return part_of(each, static_cast<std::ptrdiff_t>(each.count) * rank, each.count);
  }
};

EqualBlocks blocks_of(Attempt& call, const void* data, int count, MPI_Datatype type) {
  return {{data, static_cast<std::size_t>(count), type, call.session().types().find(type)},
          static_cast<std::size_t>(call.size())};
}

Elements elements_of(Attempt& call, const void* data, int count, MPI_Datatype type) {
  return {data, static_cast<std::size_t>(count), type, call.session().types().find(type)};
}

ConstBufferView view_of_bytes(const std::byte* data, std::size_t bytes) {
  return ConstBufferView(data, bytes, DataType::uint8);
}
BufferView view_of_bytes(std::byte* data, std::size_t bytes) {
  return BufferView(data, bytes, DataType::uint8);
}

/// A copy of what lies partly where the other side is.
const std::byte* kept_apart(const std::byte* data, std::size_t bytes, const std::byte* other,
                            std::size_t other_bytes, Scratch& scratch) {
  if (!overlap(data, bytes, other, other_bytes)) return data;
  std::byte* const copy = scratch.take(bytes);
  std::memcpy(copy, data, bytes);
  return copy;
}

/// What a rank gives to its own block of `landing` and to others: its own block is there already
/// where it is in place.
const std::byte* given_beside(const Elements& in, bool in_place, const EqualBlocks& out, int rank,
                              const Landing& landing, Scratch& scratch) {
  if (!in_place)
    return kept_apart(packed(in, scratch), in.bytes(), landing.data(), out.bytes(), scratch);
  std::byte* const own = landing.data() + out.each.bytes() * static_cast<std::size_t>(rank);
  if (!out.each.info.is_flat) pack(out.of(rank), own);
  return own;
}

}  // namespace

Outcome attempt(Tag<Call::Gather>, Attempt& call, const void* in, int in_count,
                MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type, int root,
                MPI_Comm comm) {
  if (!call.find(comm)) return call.left();
  const bool is_root = call.rank() == root;
  if (!call.has(root) || (is_root ? out_count : in_count) < 0 ||
      (is_root ? out : in) == MPI_IN_PLACE)
    return Attempt::left(Reason::bad_arguments);
  const EqualBlocks to = is_root ? blocks_of(call, out, out_count, out_type) : EqualBlocks();
  const bool in_place = is_root && in == MPI_IN_PLACE;
  const Elements from = in_place ? Elements() : elements_of(call, in, in_count, in_type);
  const std::size_t bytes = is_root ? to.each.bytes() : from.bytes();
  if (!in_place && !from.info.is_known) return Attempt::left(Reason::bad_arguments);
  if (const Reason reason = call.judge(bytes, call.size()); reason != Reason::carried)
    return Attempt::left(reason);
  return call.run([&](ProcessGroup& group) {
    Scratch scratch;
    if (!is_root) {
      group.gather(view_of_bytes(packed(from, scratch), bytes), BufferView(),
                   call.world_rank(root));
      return;
    }
    Landing landing(to.all(), scratch);
    const std::byte* const given = given_beside(from, in_place, to, call.rank(), landing, scratch);
    group.gather(view_of_bytes(given, bytes), view_of_bytes(landing.data(), to.bytes()),
                 call.world_rank(root));
    landing.store();
  });
}

Outcome attempt(Tag<Call::Scatter>, Attempt& call, const void* in, int in_count,
                MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type, int root,
                MPI_Comm comm) {
  if (!call.find(comm)) return call.left();
  const bool is_root = call.rank() == root;
  if (!call.has(root) || (is_root ? in_count : out_count) < 0 ||
      (is_root ? in : out) == MPI_IN_PLACE)
    return Attempt::left(Reason::bad_arguments);
  const EqualBlocks from = is_root ? blocks_of(call, in, in_count, in_type) : EqualBlocks();
  const bool in_place = is_root && out == MPI_IN_PLACE;
  const Elements to = in_place ? Elements() : elements_of(call, out, out_count, out_type);
  const std::size_t bytes = is_root ? from.each.bytes() : to.bytes();
  if (!in_place && !to.info.is_known) return Attempt::left(Reason::bad_arguments);
  if (const Reason reason = call.judge(bytes, call.size()); reason != Reason::carried)
    return Attempt::left(reason);
  return call.run([&](ProcessGroup& group) {
    Scratch scratch;
    // What the root scatters to itself in place goes nowhere.
    const Elements landed = in_place ? memory_for(bytes, scratch) : to;
    Landing landing(landed, scratch);
    if (is_root) {
      const std::byte* const given =
          kept_apart(packed(from.all(), scratch), from.bytes(), landing.data(), bytes, scratch);
      group.scatter(view_of_bytes(given, from.bytes()), view_of_bytes(landing.data(), bytes),
                    call.world_rank(root));
    } else {
      group.scatter(ConstBufferView(), view_of_bytes(landing.data(), bytes), call.world_rank(root));
    }
    landing.store();
  });
}

Outcome attempt(Tag<Call::Allgather>, Attempt& call, const void* in, int in_count,
                MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type,
                MPI_Comm comm) {
  if (!call.find(comm)) return call.left();
  const bool in_place = in == MPI_IN_PLACE;
  if (out == MPI_IN_PLACE || out_count < 0 || (!in_place && in_count < 0))
    return Attempt::left(Reason::bad_arguments);
  const EqualBlocks to = blocks_of(call, out, out_count, out_type);
  const Elements from = in_place ? Elements() : elements_of(call, in, in_count, in_type);
  if (!in_place && !from.info.is_known) return Attempt::left(Reason::bad_arguments);
  if (const Reason reason = call.judge(to.each.bytes(), call.size()); reason != Reason::carried)
    return Attempt::left(reason);
  return call.run([&](ProcessGroup& group) {
    Scratch scratch;
    Landing landing(to.all(), scratch);
    const std::byte* const given = given_beside(from, in_place, to, call.rank(), landing, scratch);
    group.all_gather(view_of_bytes(given, in_place ? to.each.bytes() : from.bytes()),
                     view_of_bytes(landing.data(), to.bytes()));
    landing.store();
  });
}

Outcome attempt(Tag<Call::Alltoall>, Attempt& call, const void* in, int in_count,
                MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type,
                MPI_Comm comm) {
  if (!call.find(comm)) return call.left();
  const bool in_place = in == MPI_IN_PLACE;
  if (out == MPI_IN_PLACE || out_count < 0 || (!in_place && in_count < 0))
    return Attempt::left(Reason::bad_arguments);
  const EqualBlocks to = blocks_of(call, out, out_count, out_type);
  const EqualBlocks from = in_place ? to : blocks_of(call, in, in_count, in_type);
  if (!from.each.info.is_known) return Attempt::left(Reason::bad_arguments);
  if (const Reason reason = call.judge(to.each.bytes(), call.size()); reason != Reason::carried)
    return Attempt::left(reason);
  return call.run([&](ProcessGroup& group) {
    Scratch scratch;
    Landing landing(to.all(), scratch);
    const std::byte* given = landing.data();
    if (in_place)
      landing.load();
    else
      given =
          kept_apart(packed(from.all(), scratch), to.bytes(), landing.data(), to.bytes(), scratch);
    group.all_to_all(view_of_bytes(given, to.bytes()), view_of_bytes(landing.data(), to.bytes()));
    landing.store();
  });
}

Outcome attempt(Tag<Call::Reduce_scatter_block>, Attempt& call, const void* in, void* out,
                int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  if (!call.find(comm)) return call.left();
  if (out == MPI_IN_PLACE || count < 0) return Attempt::left(Reason::bad_arguments);
  const bool in_place = in == MPI_IN_PLACE;
  const EqualBlocks from = blocks_of(call, in_place ? out : in, count, type);
  const Reduction reduction(op, type, from.each.info, call.session().keeps_bits());
  if (const Reason reason = call.judge(from.each.bytes(), call.size()); reason != Reason::carried)
    return Attempt::left(reason);
  if (reduction.reason() != Reason::carried) return Attempt::left(reduction.reason());
  return call.run([&](ProcessGroup& group) {
    Scratch scratch;
    const Elements to{out, from.each.count, type, from.each.info};
    Landing landing(to, scratch);
    const std::byte* const given =
        kept_apart(packed(from.all(), scratch), from.bytes(), landing.data(), to.bytes(), scratch);
    group.reduce_scatter(reduction.view<ConstBufferView>(given, from.all().count),
                         reduction.view<BufferView>(landing.data(), to.count), reduction.op());
    landing.store();
  });
}

}  // namespace hymn::preload
