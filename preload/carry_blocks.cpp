// Collectives in which all ranks have a block of each rank.
#include "preload/blocks.hpp"

namespace hymn::preload {
namespace {

/// Allgather and Allgatherv: each of all ranks gets `to`, of which it gives its own block.
Outcome all_gather(Attempt& call, const void* in, int in_count, MPI_Datatype in_type,
                   const Blocks& to, std::size_t bytes, int blocks) {
  const bool in_place = in == MPI_IN_PLACE;
  if (!to.is_sound() || (!in_place && in_count < 0)) return Attempt::left(Reason::bad_arguments);
  Elements from;
  if (!in_place)
    from = {in, static_cast<std::size_t>(in_count), in_type, call.session().types().find(in_type)};
  if (!in_place && !from.is_sound()) return Attempt::left(Reason::bad_arguments);
  if (const Reason reason = call.judge(bytes, blocks); reason != Reason::carried)
    return Attempt::left(reason);
  return call.run([&](ProcessGroup& group) {
    Scratch scratch;
    const BlocksLanding landing(to, scratch);
    const std::byte* const data =
        own_apart(in_place ? nullptr : &from, to, call.own_place(), landing, scratch);
    const ConstBufferView given =
        view_of_bytes(data, in_place ? to.bytes_of(call.own_place()) : from.bytes());
    if (to.are_alike())
      group.all_gather(given, landing.view());
    else
      group.all_gather(given, landing.view(), to.sizes());
    landing.store();
  });
}

/// Alltoall and Alltoallv. `in_place`: what `to` has is given; hymn exchanges equal blocks there.
Outcome all_to_all(Attempt& call, const Blocks& from, const Blocks& to, bool in_place) {
  return call.run([&](ProcessGroup& group) {
    Scratch scratch;
    const BlocksLanding landing(to, scratch);
    const std::byte* data = landing.data();
    if (in_place && to.sizes().empty())
      landing.load();
    else
      data = all_apart(from, landing.data(), to.bytes(), scratch);
    const ConstBufferView given = view_of_bytes(data, from.bytes());
    if (to.sizes().empty())
      group.all_to_all(given, landing.view());
    else
      group.all_to_all(given, from.sizes(), landing.view(), to.sizes());
    landing.store();
  });
}

}  // namespace

Outcome attempt(Tag<Call::Allgather>, Attempt& call, const void* in, int in_count,
                MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type,
                MPI_Comm comm) {
  if (!call.find(comm)) return call.left();
  if (out == MPI_IN_PLACE) return Attempt::left(Reason::bad_arguments);
  const Blocks to = Blocks::equal(call, out, out_count, out_type);
  return all_gather(call, in, in_count, in_type, to, to.each_bytes(), call.size());
}

Outcome attempt(Tag<Call::Allgatherv>, Attempt& call, const void* in, int in_count,
                MPI_Datatype in_type, void* out, const int out_counts[], const int places[],
                MPI_Datatype out_type, MPI_Comm comm) {
  if (!call.find(comm)) return call.left();
  if (out == MPI_IN_PLACE || out_counts == nullptr || places == nullptr)
    return Attempt::left(Reason::bad_arguments);
  const Blocks to = Blocks::uneven(call, out, out_counts, places, out_type);
  return all_gather(call, in, in_count, in_type, to, to.bytes(), 1);
}

Outcome attempt(Tag<Call::Alltoall>, Attempt& call, const void* in, int in_count,
                MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type,
                MPI_Comm comm) {
  if (!call.find(comm)) return call.left();
  const bool in_place = in == MPI_IN_PLACE;
  if (out == MPI_IN_PLACE) return Attempt::left(Reason::bad_arguments);
  const Blocks to = Blocks::equal(call, out, out_count, out_type);
  const Blocks from = in_place ? to : Blocks::equal(call, in, in_count, in_type);
  if (!to.is_sound() || !from.is_sound()) return Attempt::left(Reason::bad_arguments);
  if (const Reason reason = call.judge(to.each_bytes(), call.size()); reason != Reason::carried)
    return Attempt::left(reason);
  return all_to_all(call, from, to, in_place);
}

// How much goes to whom differs from rank to rank, so the sizes choose nothing.
Outcome attempt(Tag<Call::Alltoallv>, Attempt& call, const void* in, const int in_counts[],
                const int in_places[], MPI_Datatype in_type, void* out, const int out_counts[],
                const int out_places[], MPI_Datatype out_type, MPI_Comm comm) {
  if (!call.find(comm)) return call.left();
  const bool in_place = in == MPI_IN_PLACE;
  if (out == MPI_IN_PLACE || out_counts == nullptr || out_places == nullptr ||
      (!in_place && (in_counts == nullptr || in_places == nullptr)))
    return Attempt::left(Reason::bad_arguments);
  const Blocks to = Blocks::uneven(call, out, out_counts, out_places, out_type);
  const Blocks from = in_place ? to : Blocks::uneven(call, in, in_counts, in_places, in_type);
  if (!to.is_sound() || !from.is_sound()) return Attempt::left(Reason::bad_arguments);
  if (const Reason reason = call.judge(0); reason != Reason::carried) return Attempt::left(reason);
  return all_to_all(call, from, to, in_place);
}

}  // namespace hymn::preload
