#include "preload/blocks.hpp"

#include <cstring>

namespace hymn::preload {
namespace {

std::size_t extent_count(int count) { return count < 0 ? 0 : static_cast<std::size_t>(count); }

}  // namespace

Blocks::Blocks(Attempt& call, const void* data, int count, MPI_Datatype type)
    : call_(&call),
      base_{data, extent_count(count), type, call.session().types().find(type)},
      is_sound_(base_.info.is_known && count >= 0),
      is_dense_(call.keeps_order()) {}

Blocks Blocks::equal(Attempt& call, const void* data, int count, MPI_Datatype type) {
  Blocks made(call, data, count, type);
  made.bytes_ = made.each_bytes() * static_cast<std::size_t>(call.size());
  made.is_sound_ = made.is_sound_ && made.base_.is_sound();
  return made;
}

Blocks Blocks::uneven(Attempt& call, const void* data, const int counts[], const int places[],
                      MPI_Datatype type) {
  Blocks made(call, data, 0, type);
  const auto ranks = static_cast<std::size_t>(call.size());
  std::vector<std::ptrdiff_t> at(ranks);
  std::ptrdiff_t next = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    made.is_sound_ = made.is_sound_ && counts[rank] >= 0;
    at[rank] = places == nullptr ? next : places[rank];
    made.is_dense_ = made.is_dense_ && at[rank] == next;
    next += counts[rank];
  }
  made.places_.reserve(ranks);
  made.sizes_.reserve(ranks);
  for (std::size_t place = 0; place < ranks; ++place) {
    const auto rank = static_cast<std::size_t>(call.rank_of_member(place));
    made.places_.push_back(at[rank]);
    made.sizes_.push_back(extent_count(counts[rank]) * made.base_.info.size);
    made.bytes_ += made.sizes_.back();
    made.are_alike_ = made.are_alike_ && counts[rank] == counts[0];
  }
  const bool is_missing = data == nullptr && made.bytes_ != 0 && made.base_.info.is_flat;
  made.is_sound_ = made.is_sound_ && !is_missing;
  return made;
}

std::size_t Blocks::bytes_before(std::size_t place) const {
  if (sizes_.empty()) return each_bytes() * place;
  std::size_t before = 0;
  for (std::size_t i = 0; i < place; ++i) before += sizes_[i];
  return before;
}

Elements Blocks::of(std::size_t place) const {
  if (sizes_.empty()) {
    const auto rank = static_cast<std::ptrdiff_t>(call_->rank_of_member(place));
    return part_of(base_, static_cast<std::ptrdiff_t>(base_.count) * rank, base_.count);
  }
  return part_of(base_, places_[place], base_.info.size == 0 ? 0 : sizes_[place] / base_.info.size);
}

Elements Blocks::whole() const {
  return {base_.data, base_.info.size == 0 ? 0 : bytes_ / base_.info.size, base_.type, base_.info};
}

void Blocks::pack_all(std::byte* to) const {
  if (is_dense_) return pack(whole(), to);
  const auto ranks = static_cast<std::size_t>(call_->size());
  for (std::size_t place = 0; place < ranks; to += bytes_of(place++)) pack(of(place), to);
}

void Blocks::unpack_all(const std::byte* from) const {
  if (is_dense_) return unpack(from, whole());
  const auto ranks = static_cast<std::size_t>(call_->size());
  for (std::size_t place = 0; place < ranks; from += bytes_of(place++)) unpack(from, of(place));
}

ConstBufferView view_of_bytes(const std::byte* data, std::size_t bytes) {
  return ConstBufferView(data, bytes, DataType::uint8);
}
BufferView view_of_bytes(std::byte* data, std::size_t bytes) {
  return BufferView(data, bytes, DataType::uint8);
}

const std::byte* kept_apart(const std::byte* data, std::size_t bytes, const std::byte* other,
                            std::size_t other_bytes, Scratch& scratch) {
  if (!overlap(data, bytes, other, other_bytes)) return data;
  std::byte* const copy = scratch.take(bytes);
  std::memcpy(copy, data, bytes);
  return copy;
}

const std::byte* all_apart(const Blocks& from, const std::byte* other, std::size_t other_bytes,
                           Scratch& scratch) {
  if (from.is_ready()) return kept_apart(from.data(), from.bytes(), other, other_bytes, scratch);
  std::byte* const copy = scratch.take(from.bytes());
  from.pack_all(copy);
  return copy;
}

const std::byte* own_apart(const Elements* in, const Blocks& out, std::size_t own_place,
                           const BlocksLanding& landing, Scratch& scratch) {
  if (in != nullptr)
    return kept_apart(packed(*in, scratch), in->bytes(), landing.data(), out.bytes(), scratch);
  std::byte* const own = landing.data() + out.bytes_before(own_place);
  if (!out.is_ready()) pack(out.of(own_place), own);
  return own;
}

}  // namespace hymn::preload
