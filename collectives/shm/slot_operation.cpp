#include "collectives/shm/slot_operation.hpp"

#include <algorithm>

namespace hymn {
namespace {

/// Large enough that handing a piece over does not matter, small enough that both sides work at the
/// same time and that what is handed over is still in a cache. Measured with 2 ranks.
std::size_t preferred_room(std::size_t bytes) {
  if (bytes <= std::size_t{128} << 10) return std::size_t{32} << 10;
  if (bytes <= std::size_t{1} << 20) return std::size_t{64} << 10;
  return SlotRing::largest_room;
}

}  // namespace

void SlotOperation::begin() {
  mix(label());
  if (plan()) give_next();
}

bool SlotOperation::plan() {
  const std::size_t bytes = shown_bytes();
  std::size_t room = SlotRing::tiny_bytes;
  // A tiny head has no room for a factor.
  if (bytes > room || request_.op.kind() == ReduceKind::premul_sum) {
    size_ = SlotRing::Size::few;
    room = SlotRing::few_bytes;
  }
  if (bytes > room) {
    size_ = SlotRing::Size::near;
    room = SlotRing::near_bytes;
  }
  if (bytes > room) {
    size_ = SlotRing::Size::small;
    room = ring_.small_room();
  }
  // In the larger memory members that share cores get further before others must run.
  if (bytes > room || (size_ == SlotRing::Size::small && channel().oversubscribed())) {
    const std::size_t large = ring_.large_room();
    if (large == ShmChannel::unknown_bytes) return false;
    if (large > room) {
      size_ = SlotRing::Size::large;
      room = std::min(large, std::max(room, preferred_room(bytes)));
    }
  }
  piece_bytes_ = std::min(bytes, room);
  const RoundPlan round_plan = this->plan_rounds(room);
  first_ = ring_.open_rounds(round_plan.rounds);
  end_ = first_ + round_plan.rounds;
  given_ = first_;
  give_end_ = first_ + round_plan.to_give;
  taken_ = round_plan.takes ? first_ : end_;
  if (!round_plan.takes && round_plan.rounds != 0) ring_.finish(end_ - 1, size_);
  planned_ = true;
  return true;
}

bool SlotOperation::advance() {
  if (!planned_ && !plan()) return false;
  budget_.begin();
  for (;;) {
    const bool gave = give_next();
    const std::uint64_t before = taken_;
    const bool took = taken_ != end_ && take();
    if (taken_ != before) ring_.finish(taken_ - 1, size_);
    if (given_ == give_end_ && taken_ == end_) return true;
    if (!gave && !took) return false;
    // Whatever was given, or taken: not less than one piece of it.
    budget_.add(piece_bytes_);
    if (budget_.is_done()) return budget_.go_on_later(channel());
  }
}

bool SlotOperation::give_next() {
  if (given_ == give_end_) return false;
  // Whoever only gives hears of the others where it needs room that they have left.
  if (!ring_.claim(given_, size_, piece_bytes_)) return false;
  if (ring_.has_looked()) [[unlikely]]
    require_same_calls();
  give(given_++);
  return true;
}

void SlotOperation::show(std::uint64_t round) {
  if (request_.op.kind() == ReduceKind::premul_sum)
    ring_.head(rank(), round).factor = request_.op.factor();
  channel().publish(ring_.flag(rank(), round, is_tiny()), RoundFlag::make(round, mixed_, 0));
}

// False when the member shows something in this round that belongs to another call: where this
// rank looks, or where it would be if it were shorter or longer.
bool SlotOperation::is_for_this_call(int member, std::uint64_t round, std::uint64_t flag) const {
  const std::uint64_t other = ring_.flag(member, round, !is_tiny()).load(std::memory_order_relaxed);
  return !RoundFlag::is_of(flag, round) && !RoundFlag::is_of(other, round);
}

}  // namespace hymn
