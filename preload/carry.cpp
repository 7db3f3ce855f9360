// Collectives in which each rank has one buffer.
#include <cstring>

#include "preload/attempt.hpp"

namespace hymn::preload {
namespace {

std::size_t count_of(int count) { return static_cast<std::size_t>(count); }

BufferView bytes_at(std::byte* data, std::size_t bytes) {
  return BufferView(data, bytes, DataType::uint8);
}

/// MPI forbids overlapping buffers, but programs pass them; hymn wants the input where the output
/// is, or apart from it.
const std::byte* apart(const std::byte* in, const std::byte* out, std::size_t bytes,
                       Scratch& scratch) {
  if (in == out || !overlap(in, bytes, out, bytes)) return in;
  std::byte* const copy = scratch.take(bytes);
  std::memcpy(copy, in, bytes);
  return copy;
}

/// MPI has not even begun it.
bool is_of_arguments(int code) {
  int of = MPI_SUCCESS;
  PMPI_Error_class(code, &of);
  return of == MPI_ERR_BUFFER || of == MPI_ERR_COUNT || of == MPI_ERR_TYPE || of == MPI_ERR_OP ||
         of == MPI_ERR_ROOT || of == MPI_ERR_ARG || of == MPI_ERR_COMM;
}

/// Allreduce, Scan and Exscan.
Outcome reduce_to_all(Attempt& call, Request (*request)(ConstBufferView, BufferView, ReduceOp),
                      const void* in, void* out, int count, MPI_Datatype type, MPI_Op op,
                      MPI_Comm comm, bool writes) {
  if (!call.find(comm)) return call.left();
  if (count < 0 || out == MPI_IN_PLACE) return Attempt::left(Reason::bad_arguments);
  // What the first ranks get is one input as it is, where hymn gives 0 or 1.
  const bool is_logical = op == MPI_LAND || op == MPI_LOR || op == MPI_LXOR;
  if (is_logical && request != Request::all_reduce) return Attempt::left(Reason::unsupported);
  const TypeInfo info = call.session().types().find(type);
  const Elements to{out, count_of(count), type, info};
  if (writes && !to.is_sound()) return Attempt::left(Reason::bad_arguments);
  const Reduction reduction(op, type, info, call.session().keeps_bits());
  Reason reason = call.judge(reduction, request != Request::all_reduce);
  if (reason == Reason::carried) reason = call.judge(to.bytes());
  if (reason != Reason::carried) return Attempt::left(reason);
  return call.run([&](ProcessGroup& group) {
    Scratch scratch;
    // What the first rank of MPI_Exscan gets goes nowhere: it may have no buffer.
    Landing landing(writes ? to : memory_for(to.bytes(), scratch), scratch);
    const std::byte* from = landing.data();
    if (in == MPI_IN_PLACE)
      writes ? landing.load() : pack(to, landing.data());
    else
      from =
          apart(packed({in, to.count, type, info}, scratch), landing.data(), to.bytes(), scratch);
    group.run(request(reduction.view<ConstBufferView>(from, to.count),
                      reduction.view<BufferView>(landing.data(), to.count), reduction.op()));
    if (writes) landing.store();
  });
}

}  // namespace

bool Attempt::find(MPI_Comm comm) {
  comm_ = session_.communicators().find(comm);
  if (comm_ == nullptr) return false;
  reason_ = session_.groups() == nullptr ? Reason::off : comm_->reason();
  return reason_ == Reason::carried || reason_ == Reason::early;
}

Reason Attempt::judge(std::size_t bytes, int blocks) {
  bytes_ = bytes;
  reason_ = comm_->admit(*session_.groups());
  is_counted_ = true;
  if (reason_ == Reason::carried) reason_ = judge_size(blocks);
  return reason_;
}

Reason Attempt::judge_size(int blocks) const {
  if (bytes_ > most_bytes / static_cast<std::size_t>(blocks)) return Reason::unsupported;
  const bool may_be_empty = call_ == Call::Barrier || sizes_of(call_) == Sizes::unknown;
  if (bytes_ == 0 && !may_be_empty) return Reason::empty;
  if (session_.carries_all()) return Reason::carried;
  return preload::judge({call_, comm_->size(), comm_->hosts(), bytes_});
}

void Attempt::was_refused(int code) {
  if (is_counted_ && is_of_arguments(code)) comm_->take_back();
}

double Attempt::expected_ratio() const {
  if (!session_.reports() || comm_ == nullptr || reason_ != Reason::carried) return 1;
  return preload::expected_ratio({call_, comm_->size(), comm_->hosts(), bytes_});
}

Reason Attempt::judge_told(std::size_t bytes) {
  bytes_ = bytes;
  return bytes > most_bytes ? Reason::unsupported : Reason::carried;
}

Reason Attempt::judge(const Reduction& reduction, bool in_order) const {
  if (reduction.reason() != Reason::carried) return reduction.reason();
  if (keeps_order() || (reduction.commutes() && !in_order)) return Reason::carried;
  return Reason::order;
}

Outcome attempt(Tag<Call::Allreduce>, Attempt& call, const void* in, void* out, int count,
                MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return reduce_to_all(call, Request::all_reduce, in, out, count, type, op, comm, true);
}

Outcome attempt(Tag<Call::Scan>, Attempt& call, const void* in, void* out, int count,
                MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return reduce_to_all(call, Request::scan, in, out, count, type, op, comm, true);
}

// The first rank gets nothing, and its buffer stays as it is.
Outcome attempt(Tag<Call::Exscan>, Attempt& call, const void* in, void* out, int count,
                MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  int rank = 0;
  if (comm != MPI_COMM_NULL) PMPI_Comm_rank(comm, &rank);
  return reduce_to_all(call, Request::exscan, in, out, count, type, op, comm, rank != 0);
}

Outcome attempt(Tag<Call::Reduce>, Attempt& call, const void* in, void* out, int count,
                MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
  if (!call.find(comm)) return call.left();
  const bool is_root = call.rank() == root;
  if (count < 0 || !call.has(root) || (is_root ? out : in) == MPI_IN_PLACE)
    return Attempt::left(Reason::bad_arguments);
  const TypeInfo info = call.session().types().find(type);
  const Elements to{out, count_of(count), type, info};
  const Reduction reduction(op, type, info, call.session().keeps_bits());
  Reason reason = call.judge(reduction);
  if (reason == Reason::carried) reason = call.judge(to.bytes());
  if (reason != Reason::carried) return Attempt::left(reason);
  return call.run([&](ProcessGroup& group) {
    Scratch scratch;
    const Elements given{in, to.count, type, info};
    if (!is_root) {
      group.reduce(reduction.view<ConstBufferView>(packed(given, scratch), to.count), BufferView(),
                   call.world_rank(root), reduction.op());
      return;
    }
    Landing landing(to, scratch);
    const std::byte* from = landing.data();
    if (in == MPI_IN_PLACE)
      landing.load();
    else
      from = apart(packed(given, scratch), landing.data(), to.bytes(), scratch);
    group.reduce(reduction.view<ConstBufferView>(from, to.count),
                 reduction.view<BufferView>(landing.data(), to.count), call.world_rank(root),
                 reduction.op());
    landing.store();
  });
}

Outcome attempt(Tag<Call::Bcast>, Attempt& call, void* data, int count, MPI_Datatype type, int root,
                MPI_Comm comm) {
  if (!call.find(comm)) return call.left();
  if (count < 0 || !call.has(root) || data == MPI_IN_PLACE)
    return Attempt::left(Reason::bad_arguments);
  const Elements elements{data, count_of(count), type, call.session().types().find(type)};
  if (!elements.is_sound()) return Attempt::left(Reason::bad_arguments);
  if (const Reason reason = call.judge(elements.bytes()); reason != Reason::carried)
    return Attempt::left(reason);
  return call.run([&](ProcessGroup& group) {
    Scratch scratch;
    Landing landing(elements, scratch);
    const bool is_root = call.rank() == root;
    if (is_root) landing.load();
    group.broadcast(bytes_at(landing.data(), elements.bytes()), call.world_rank(root));
    if (!is_root) landing.store();
  });
}

Outcome attempt(Tag<Call::Barrier>, Attempt& call, MPI_Comm comm) {
  if (!call.find(comm)) return call.left();
  if (const Reason reason = call.judge(0); reason != Reason::carried) return Attempt::left(reason);
  return call.run([](ProcessGroup& group) { group.barrier(); });
}

}  // namespace hymn::preload
