#include "collectives/shm/slot_ring.hpp"

#include <algorithm>

namespace hymn {

SlotRing::SlotRing(const ShmGroup& group)
    : channel_(group.channel),
      fixed_area_(group.areas.ring),
      large_area_(group.areas.ring_large),
      reproducibility_(group.shape.reproducibility),
      small_room_(small_room_for(channel_->size())),
      done_by_(static_cast<std::size_t>(channel_->size())),
      taken_(static_cast<std::size_t>(channel_->size())) {}

// What a reduce_scatter among many members puts in one slot must leave some bytes for each.
std::size_t SlotRing::small_room_for(int members) {
  return std::max<std::size_t>(4096, static_cast<std::size_t>(members) * 256);
}

std::size_t SlotRing::fixed_area_bytes(int members) {
  return sizeof(Fixed) + data_slots * (small_room_for(members) + margin);
}

std::size_t SlotRing::large_area_bytes() { return data_slots * (largest_room + margin); }

std::size_t SlotRing::large_room() {
  if (large_stride_ == 0) {
    const std::size_t usable = channel_->usable_bytes(large_area_);
    if (usable == ShmChannel::unknown_bytes) return usable;
    large_stride_ = usable / data_slots / margin * margin;
  }
  return large_stride_ > margin ? large_stride_ - margin : 0;
}

std::byte* SlotRing::data(int member, std::uint64_t round, Size size, unsigned offset) const {
  switch (size) {
    case Size::few:
      return head(member, round).few;
    case Size::small:
      return reinterpret_cast<std::byte*>(&fixed(member)) + sizeof(Fixed) +
             round % data_slots * (small_room_ + margin) + offset;
    case Size::large:
      break;
  }
  return channel_->at<std::byte>(member, large_area_) + round % data_slots * large_stride_ + offset;
}

// The others' counters are looked at only when the slots known to be free are used up.
bool SlotRing::look_for_free(std::uint64_t round) {
  std::uint64_t least = UINT64_MAX;
  for (int member = 0; member < channel_->size(); ++member) {
    if (member == channel_->rank()) continue;
    std::uint64_t& done = done_by_[static_cast<std::size_t>(member)];
    if (done < round) done = fixed(member).done.load(std::memory_order_acquire);
    if (done < round) return false;
    least = std::min(least, done);
  }
  done_by_all_ = least;
  return true;
}

}  // namespace hymn
