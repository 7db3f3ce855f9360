#include "collectives/shm/slot_ring.hpp"

#include <algorithm>

namespace hymn {

SlotRing::SlotRing(const ShmGroup& group)
    : channel_(group.channel),
      fixed_area_(group.areas.ring),
      large_area_(group.areas.ring_large),
      reproducibility_(group.shape.reproducibility),
      small_room_(small_room_for(channel_->size())),
      taken_(static_cast<std::size_t>(channel_->size())) {
  small_.span = pieces * (small_room_ + 2 * line);
}

// What a reduce_scatter among many members shows in one round must leave some bytes for each.
std::size_t SlotRing::small_room_for(int members) {
  return std::max<std::size_t>(4096, static_cast<std::size_t>(members) * 256);
}

std::size_t SlotRing::fixed_area_bytes(int members) {
  return sizeof(Fixed) + pieces * (small_room_for(members) + 2 * line);
}

std::size_t SlotRing::large_area_bytes() { return pieces * (largest_room + 2 * line); }

std::size_t SlotRing::large_room() {
  if (large_room_ == ShmChannel::unknown_bytes) {
    const std::size_t usable = channel_->usable_bytes(large_area_);
    if (usable == ShmChannel::unknown_bytes) return usable;
    const std::size_t each = usable / pieces / line * line;
    large_room_ = each > 2 * line ? each - 2 * line : 0;
  }
  return large_room_;
}

bool SlotRing::claim(std::uint64_t round, Size size, std::size_t bytes) {
  const unsigned slots = size == Size::near ? nears : heads;
  if (round > slots && !all_are_through(round - slots)) return false;
  return size <= Size::near || claim_bytes(round, size, bytes);
}

bool SlotRing::claim_bytes(std::uint64_t round, Size size, std::size_t bytes) {
  Circle& circle = size == Size::small ? small_ : large_;
  // Data begins as far from a line as the user's buffer, which takes up to a line more.
  const std::size_t length = (bytes + 2 * line - 1) / line * line;
  std::size_t span = circle.span;
  // Members that share cores should do much in their time: they get room for many small pieces.
  if (size == Size::large)
    span = std::max(pieces * length, channel_->oversubscribed() ? large_room_ : std::size_t{0});
  std::uint64_t begin = circle.end;
  if (begin % span + length > span) begin += span - begin % span;
  for (; circle.first != circle.last; ++circle.first) {
    const Circle::Piece& oldest = circle.given[circle.first % heads];
    // In a circle of another size anything may lie anywhere.
    const bool in_the_way = span != circle.span || oldest.begin + span < begin + length ||
                            circle.last - circle.first == heads;
    if (!in_the_way) break;
    if (!all_are_through(oldest.round)) return false;
  }
  circle.span = span;
  circle.given[circle.last++ % heads] = {round, begin};
  circle.end = begin + length;
  head(channel_->rank(), round).place = begin % span;
  return true;
}

// The others' counters are looked at only when what is known to be free is used up.
bool SlotRing::look_whether_through(std::uint64_t round) {
  done_by_all_ = least_done_by_others(std::memory_order_acquire);
  has_looked_ = true;
  return round <= done_by_all_;
}

std::uint64_t SlotRing::least_done_by_others(std::memory_order order) const {
  std::uint64_t least = UINT64_MAX;
  for (int member = 0; member < channel_->size(); ++member)
    if (member != channel_->rank()) least = std::min(least, fixed(member).done.load(order));
  return least;
}

// Room becomes free when the last of all is through: only that one wakes those who sleep for it, as
// waking is dear and everybody is through with every round. All in one order (seq_cst), so that of
// several who end together one sees that it was the last.
void SlotRing::tell_whoever_sleeps(std::atomic<std::uint64_t>& done, std::uint64_t before) {
  done.store(told_, std::memory_order_seq_cst);
  if (least_done_by_others(std::memory_order_seq_cst) > before) channel_->wake_sleepers();
}

}  // namespace hymn
