// Blocks of the program, one of each rank, as hymn's group takes them: in the order of its members.
#pragma once

#include <cstddef>
#include <vector>

#include "hymn/types.hpp"
#include "preload/attempt.hpp"
#include "preload/staging.hpp"

namespace hymn::preload {

class Blocks {
 public:
  /// `count` elements of each rank, one block behind the other.
  static Blocks equal(Attempt& call, const void* data, int count, MPI_Datatype type);
  /// `counts` and `places`, in extents of the type, by rank; no places: one behind the other.
  static Blocks uneven(Attempt& call, const void* data, const int counts[], const int places[],
                       MPI_Datatype type);

  /// False: MPI has something to say against its type or counts.
  bool is_sound() const { return is_sound_; }
  std::size_t bytes() const { return bytes_; }
  std::size_t bytes_of(std::size_t place) const {
    return sizes_.empty() ? each_bytes() : sizes_[place];
  }
  std::size_t each_bytes() const { return base_.bytes(); }
  /// Of all members; empty: all alike, and given by one count.
  const std::vector<std::size_t>& sizes() const { return sizes_; }
  /// All are of one size, whichever way they are given.
  bool are_alike() const { return are_alike_; }
  std::size_t bytes_before(std::size_t place) const;
  Elements of(std::size_t place) const;

  /// They lie as they travel.
  bool is_ready() const { return is_dense_ && base_.info.is_flat; }
  std::byte* data() const { return static_cast<std::byte*>(const_cast<void*>(base_.data)); }
  /// One behind the other.
  void pack_all(std::byte* to) const;
  void unpack_all(const std::byte* from) const;

 private:
  Blocks(Attempt& call, const void* data, int count, MPI_Datatype type);

  Elements whole() const;

  const Attempt* call_;
  Elements base_;                         ///< the first, of equal ones
  std::vector<std::size_t> sizes_{};      ///< of uneven ones
  std::vector<std::ptrdiff_t> places_{};  ///< likewise
  std::size_t bytes_ = 0;
  bool is_sound_;
  bool is_dense_;  ///< one behind the other in this order
  bool are_alike_ = true;
};

/// Where blocks are received: where they lie, or memory from which store() unpacks them.
class BlocksLanding {
 public:
  BlocksLanding(const Blocks& blocks, Scratch& scratch)
      : blocks_(blocks), data_(blocks.is_ready() ? blocks.data() : scratch.take(blocks.bytes())) {}
  std::byte* data() const { return data_; }
  BufferView view() const { return BufferView(data_, blocks_.bytes(), DataType::uint8); }
  /// What is there now is to stay where nothing is received.
  void load() const {
    if (!blocks_.is_ready()) blocks_.pack_all(data_);
  }
  void store() const {
    if (!blocks_.is_ready()) blocks_.unpack_all(data_);
  }

 private:
  const Blocks& blocks_;
  std::byte* data_;
};

ConstBufferView view_of_bytes(const std::byte* data, std::size_t bytes);
BufferView view_of_bytes(std::byte* data, std::size_t bytes);

/// A copy of what lies partly where the other side is.
const std::byte* kept_apart(const std::byte* data, std::size_t bytes, const std::byte* other,
                            std::size_t other_bytes, Scratch& scratch);
/// All blocks as they travel, apart from the other side.
const std::byte* all_apart(const Blocks& from, const std::byte* other, std::size_t other_bytes,
                           Scratch& scratch);
/// What this rank gives to its own block of `landing`, and to others; null `in`: what is there.
const std::byte* own_apart(const Elements* in, const Blocks& out, std::size_t own_place,
                           const BlocksLanding& landing, Scratch& scratch);

}  // namespace hymn::preload
