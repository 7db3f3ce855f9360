// Collectives with blocks of different sizes.
#include <cstring>
#include <vector>

#include "preload/attempt.hpp"
#include "preload/reductions.hpp"

namespace hymn::preload {
namespace {

/// Blocks of the program, anywhere in its memory.
class UnevenBlocks {
 public:
  UnevenBlocks(Attempt& call, const void* data, const int counts[], const int places[],
               MPI_Datatype type)
      : base_{data, 0, type, call.session().types().find(type)}, is_sound_(base_.info.is_known) {
    std::ptrdiff_t next = 0;
    for (int rank = 0; rank < call.size(); ++rank) {
      is_sound_ = is_sound_ && counts[rank] >= 0;
      const std::ptrdiff_t place = places == nullptr ? next : places[rank];
      is_dense_ = is_dense_ && place == next;
      next += counts[rank];
      places_.push_back(place);
      bytes_of_.push_back(static_cast<std::size_t>(counts[rank]) * base_.info.size);
      bytes_ += bytes_of_.back();
    }
  }

  bool is_sound() const { return is_sound_; }
  std::size_t bytes() const { return bytes_; }
  const std::vector<std::size_t>& bytes_of() const { return bytes_of_; }
  Elements of(std::size_t rank) const {
    return part_of(base_, places_[rank],
                   base_.info.size == 0 ? 0 : bytes_of_[rank] / base_.info.size);
  }
  /// They lie as they travel.
  bool is_ready() const { return is_dense_ && base_.info.is_flat; }
  std::byte* data() const { return static_cast<std::byte*>(const_cast<void*>(base_.data)); }

  /// One behind the other.
  void pack_all(std::byte* to) const {
    for (std::size_t rank = 0; rank < places_.size(); to += bytes_of_[rank++]) pack(of(rank), to);
  }
  void unpack_all(const std::byte* from) const {
    for (std::size_t rank = 0; rank < places_.size(); from += bytes_of_[rank++])
      unpack(from, of(rank));
  }
  std::size_t bytes_before(int rank) const {
    std::size_t before = 0;
    for (int i = 0; i < rank; ++i) before += bytes_of_[static_cast<std::size_t>(i)];
    return before;
  }

 private:
  Elements base_;
  std::vector<std::ptrdiff_t> places_{};
  std::vector<std::size_t> bytes_of_{};
  std::size_t bytes_ = 0;
  bool is_sound_;
  bool is_dense_ = true;
};

/// Where uneven blocks are received: where they lie, or one behind the other in other memory.
class UnevenLanding {
 public:
  UnevenLanding(const UnevenBlocks& blocks, Scratch& scratch)
      : blocks_(blocks), data_(blocks.is_ready() ? blocks.data() : scratch.take(blocks.bytes())) {}
  std::byte* data() const { return data_; }
  BufferView view() const { return BufferView(data_, blocks_.bytes(), DataType::uint8); }
  void store() const {
    if (!blocks_.is_ready()) blocks_.unpack_all(data_);
  }

 private:
  const UnevenBlocks& blocks_;
  std::byte* data_;
};

const std::byte* copied(const std::byte* data, std::size_t bytes, Scratch& scratch) {
  std::byte* const copy = scratch.take(bytes);
  std::memcpy(copy, data, bytes);
  return copy;
}

}  // namespace

// Of these the root alone knows how much goes to whom, so nobody else can choose a way.
Outcome attempt(Tag<Call::Gatherv>, Attempt& call, const void*, int, MPI_Datatype, void*,
                const int[], const int[], MPI_Datatype, int, MPI_Comm comm) {
  return call.find(comm) ? Attempt::left(Reason::sizes_at_root) : call.left();
}

Outcome attempt(Tag<Call::Scatterv>, Attempt& call, const void*, const int[], const int[],
                MPI_Datatype, void*, int, MPI_Datatype, int, MPI_Comm comm) {
  return call.find(comm) ? Attempt::left(Reason::sizes_at_root) : call.left();
}

Outcome attempt(Tag<Call::Allgatherv>, Attempt& call, const void* in, int in_count,
                MPI_Datatype in_type, void* out, const int out_counts[], const int places[],
                MPI_Datatype out_type, MPI_Comm comm) {
  if (!call.find(comm)) return call.left();
  const bool in_place = in == MPI_IN_PLACE;
  if (out == MPI_IN_PLACE || out_counts == nullptr || places == nullptr ||
      (!in_place && in_count < 0))
    return Attempt::left(Reason::bad_arguments);
  const UnevenBlocks to(call, out, out_counts, places, out_type);
  const TypeInfo given_type = in_place ? TypeInfo() : call.session().types().find(in_type);
  if (!to.is_sound() || (!in_place && !given_type.is_known))
    return Attempt::left(Reason::bad_arguments);
  if (const Reason reason = call.judge(to.bytes()); reason != Reason::carried)
    return Attempt::left(reason);
  return call.run([&](ProcessGroup& group) {
    Scratch scratch;
    const UnevenLanding landing(to, scratch);
    const auto me = static_cast<std::size_t>(call.rank());
    const std::size_t bytes = to.bytes_of()[me];
    const std::byte* given = landing.data() + to.bytes_before(call.rank());
    if (in_place) {
      if (!to.is_ready()) pack(to.of(me), const_cast<std::byte*>(given));
    } else {
      const Elements from{in, static_cast<std::size_t>(in_count), in_type, given_type};
      given = packed(from, scratch);
      if (overlap(given, bytes, landing.data(), to.bytes())) given = copied(given, bytes, scratch);
    }
    group.all_gather(ConstBufferView(given, bytes, DataType::uint8), landing.view(), to.bytes_of());
    landing.store();
  });
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
  if (const Reason reason = call.judge(0); reason != Reason::carried) return Attempt::left(reason);
  const UnevenBlocks to(call, out, out_counts, out_places, out_type);
  const UnevenBlocks from = in_place ? to : UnevenBlocks(call, in, in_counts, in_places, in_type);
  if (!to.is_sound() || !from.is_sound()) return Attempt::left(Reason::bad_arguments);
  return call.run([&](ProcessGroup& group) {
    Scratch scratch;
    const UnevenLanding landing(to, scratch);
    const std::byte* given = from.data();
    if (!from.is_ready() || overlap(given, from.bytes(), landing.data(), to.bytes())) {
      std::byte* const copy = scratch.take(from.bytes());
      from.pack_all(copy);
      given = copy;
    }
    group.all_to_all(ConstBufferView(given, from.bytes(), DataType::uint8), from.bytes_of(),
                     landing.view(), to.bytes_of());
    landing.store();
  });
}

Outcome attempt(Tag<Call::Reduce_scatter>, Attempt& call, const void* in, void* out,
                const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  if (!call.find(comm)) return call.left();
  if (out == MPI_IN_PLACE || counts == nullptr) return Attempt::left(Reason::bad_arguments);
  const TypeInfo info = call.session().types().find(type);
  std::vector<std::size_t> elements;
  std::size_t total = 0;
  for (int rank = 0; rank < call.size(); ++rank) {
    if (counts[rank] < 0) return Attempt::left(Reason::bad_arguments);
    elements.push_back(static_cast<std::size_t>(counts[rank]));
    total += elements.back();
  }
  const Reduction reduction(op, type, info, call.session().keeps_bits());
  if (const Reason reason = call.judge(total * info.size); reason != Reason::carried)
    return Attempt::left(reason);
  if (reduction.reason() != Reason::carried) return Attempt::left(reduction.reason());
  return call.run([&](ProcessGroup& group) {
    Scratch scratch;
    const Elements from{in == MPI_IN_PLACE ? out : in, total, type, info};
    const Elements to{out, elements[static_cast<std::size_t>(call.rank())], type, info};
    Landing landing(to, scratch);
    const std::byte* given = packed(from, scratch);
    if (overlap(given, from.bytes(), landing.data(), to.bytes()))
      given = copied(given, from.bytes(), scratch);
    group.reduce_scatter(reduction.view<ConstBufferView>(given, total), elements,
                         reduction.view<BufferView>(landing.data(), to.count), reduction.op());
    landing.store();
  });
}

}  // namespace hymn::preload
