// Slots for pieces of messages, all of one size, that each member has in its part of a region.
#pragma once

#include <cstdint>

#include "p2p/shm/channel.hpp"

namespace hymn {

/// They lie in an area that comes with its first use; where memory for it is short, small ones that
/// are there from the beginning serve instead. One member's view, touched in its turn only.
class GrowingSlots {
 public:
  static constexpr std::size_t line = 64;
  /// Data may begin anywhere in the first line of a slot, as far from it as in the user's buffer:
  /// copies between places that lie differently are slower by a factor.
  static constexpr std::size_t stride(std::size_t capacity) { return capacity + line; }
  static unsigned offset_of(const void* data) {
    return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(data) % line);
  }

  /// `area` holds `count` slots; a small one holds `small` bytes.
  GrowingSlots(int area, unsigned count, std::size_t small)
      : area_(area), count_(count), small_(small) {}

  /// True once all members know how much a slot holds: see ShmChannel::usable_bytes.
  bool find(ShmChannel& channel) { return capacity_ != 0 || look(channel); }
  /// Bytes, in whole lines; after find().
  std::size_t capacity() const { return capacity_; }
  /// Where a slot of that member begins; `small_ones`: where its small slots do.
  std::byte* slot(const ShmChannel& channel, int member, std::size_t index,
                  std::byte* small_ones) const {
    std::byte* const first =
        capacity_ == small_ ? small_ones : channel.at<std::byte>(member, area_);
    return first + index * stride(capacity_);
  }

 private:
  bool look(ShmChannel& channel) {
    const std::size_t usable = channel.usable_bytes(area_);
    if (usable == ShmChannel::unknown_bytes) return false;
    const std::size_t each = usable / count_ / line * line;
    capacity_ = each <= stride(small_) ? small_ : each - line;
    return true;
  }

  int area_;
  unsigned count_;
  std::size_t small_;
  std::size_t capacity_ = 0;
};

}  // namespace hymn
