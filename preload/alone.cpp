#include "preload/alone.hpp"

#include <cstring>

namespace hymn::preload {
namespace {

constexpr Outcome to_mpi{Reason::one_rank, MPI_SUCCESS};

/// Elements of the program as it names them; `place`: as of part_of.
struct Given {
  const void* data = nullptr;
  int count = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  std::ptrdiff_t place = 0;
};

/// What lies as it travels; else a size that no other has.
Elements plain(Attempt& call, const Given& given) {
  if (given.count < 0) return {};
  const TypeInfo info = call.session().types().find(given.type);
  if (!info.is_known || !info.is_flat) return {};
  const Elements all{given.data, static_cast<std::size_t>(given.count), given.type, info};
  return part_of(all, given.place, all.count);
}

bool is_plain(const Elements& elements) { return elements.type != MPI_DATATYPE_NULL; }

/// The one rank gets what it gives.
Outcome copy(Attempt& call, const Given& in, const Given& out, bool in_place) {
  const Elements to = plain(call, out);
  if (!is_plain(to)) return to_mpi;
  if (in_place) return {};
  const Elements from = plain(call, in);
  if (!is_plain(from) || from.bytes() != to.bytes()) return to_mpi;
  if (from.bytes() != 0) std::memmove(const_cast<void*>(to.data), from.data, from.bytes());
  return {};
}

/// A reduction of one value is the value.
Outcome reduce(Attempt& call, const void* in, void* out, int count, MPI_Datatype type, MPI_Op op) {
  const Reduction reduction(op, type, call.session().types().find(type), false);
  if (reduction.reason() != Reason::carried || out == MPI_IN_PLACE) return to_mpi;
  return copy(call, {in, count, type}, {out, count, type}, in == MPI_IN_PLACE);
}

/// Gather, Allgather and the like.
Outcome move(Attempt& call, const Given& in, const Given& out) {
  if (out.data == MPI_IN_PLACE) return to_mpi;
  return copy(call, in, out, in.data == MPI_IN_PLACE);
}

/// Of blocks of which there is one.
Given first_of(const void* data, const int counts[], const int places[], MPI_Datatype type) {
  if (counts == nullptr || places == nullptr) return {data, -1, type};
  return {data, counts[0], type, places[0]};
}

}  // namespace

Outcome alone(Tag<Call::Allreduce>, Attempt& call, const void* in, void* out, int count,
              MPI_Datatype type, MPI_Op op, MPI_Comm) {
  return reduce(call, in, out, count, type, op);
}

Outcome alone(Tag<Call::Reduce>, Attempt& call, const void* in, void* out, int count,
              MPI_Datatype type, MPI_Op op, int root, MPI_Comm) {
  return root == 0 ? reduce(call, in, out, count, type, op) : to_mpi;
}

Outcome alone(Tag<Call::Scan>, Attempt& call, const void* in, void* out, int count,
              MPI_Datatype type, MPI_Op op, MPI_Comm) {
  return reduce(call, in, out, count, type, op);
}

// The first rank gets nothing.
Outcome alone(Tag<Call::Exscan>, Attempt&, const void*, void*, int, MPI_Datatype, MPI_Op,
              MPI_Comm) {
  return to_mpi;
}

Outcome alone(Tag<Call::Reduce_scatter_block>, Attempt& call, const void* in, void* out, int count,
              MPI_Datatype type, MPI_Op op, MPI_Comm) {
  return reduce(call, in, out, count, type, op);
}

Outcome alone(Tag<Call::Reduce_scatter>, Attempt& call, const void* in, void* out,
              const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm) {
  return counts == nullptr ? to_mpi : reduce(call, in, out, counts[0], type, op);
}

Outcome alone(Tag<Call::Bcast>, Attempt& call, void* data, int count, MPI_Datatype type, int root,
              MPI_Comm) {
  if (root != 0 || data == MPI_IN_PLACE) return to_mpi;
  return copy(call, {}, {data, count, type}, true);
}

Outcome alone(Tag<Call::Barrier>, Attempt&, MPI_Comm) { return {}; }

Outcome alone(Tag<Call::Gather>, Attempt& call, const void* in, int in_count, MPI_Datatype in_type,
              void* out, int out_count, MPI_Datatype out_type, int root, MPI_Comm) {
  if (root != 0) return to_mpi;
  return move(call, {in, in_count, in_type}, {out, out_count, out_type});
}

Outcome alone(Tag<Call::Gatherv>, Attempt& call, const void* in, int in_count, MPI_Datatype in_type,
              void* out, const int out_counts[], const int places[], MPI_Datatype out_type,
              int root, MPI_Comm) {
  if (root != 0) return to_mpi;
  return move(call, {in, in_count, in_type}, first_of(out, out_counts, places, out_type));
}

// In place is what the root gets.
Outcome alone(Tag<Call::Scatter>, Attempt& call, const void* in, int in_count, MPI_Datatype in_type,
              void* out, int out_count, MPI_Datatype out_type, int root, MPI_Comm) {
  if (root != 0 || in == MPI_IN_PLACE || out == MPI_IN_PLACE) return to_mpi;
  return move(call, {in, in_count, in_type}, {out, out_count, out_type});
}

Outcome alone(Tag<Call::Scatterv>, Attempt& call, const void* in, const int in_counts[],
              const int places[], MPI_Datatype in_type, void* out, int out_count,
              MPI_Datatype out_type, int root, MPI_Comm) {
  if (root != 0 || in == MPI_IN_PLACE || out == MPI_IN_PLACE) return to_mpi;
  return move(call, first_of(in, in_counts, places, in_type), {out, out_count, out_type});
}

Outcome alone(Tag<Call::Allgather>, Attempt& call, const void* in, int in_count,
              MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type, MPI_Comm) {
  return move(call, {in, in_count, in_type}, {out, out_count, out_type});
}

Outcome alone(Tag<Call::Allgatherv>, Attempt& call, const void* in, int in_count,
              MPI_Datatype in_type, void* out, const int out_counts[], const int places[],
              MPI_Datatype out_type, MPI_Comm) {
  return move(call, {in, in_count, in_type}, first_of(out, out_counts, places, out_type));
}

Outcome alone(Tag<Call::Alltoall>, Attempt& call, const void* in, int in_count,
              MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type, MPI_Comm) {
  return move(call, {in, in_count, in_type}, {out, out_count, out_type});
}

Outcome alone(Tag<Call::Alltoallv>, Attempt& call, const void* in, const int in_counts[],
              const int in_places[], MPI_Datatype in_type, void* out, const int out_counts[],
              const int out_places[], MPI_Datatype out_type, MPI_Comm) {
  const Given to = first_of(out, out_counts, out_places, out_type);
  if (in == MPI_IN_PLACE) return move(call, {in, 0, out_type}, to);
  return move(call, first_of(in, in_counts, in_places, in_type), to);
}

}  // namespace hymn::preload
