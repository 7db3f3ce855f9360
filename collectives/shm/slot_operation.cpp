#include "collectives/shm/slot_operation.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "hymn/error.hpp"

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
  mix(static_cast<std::uint64_t>(request_.type));
  mix(static_cast<std::uint64_t>(root_));
  signature_ = signature_of(mixed_);
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
  if (bytes > room || (size_ == SlotRing::Size::small && channel().crowded())) {
    const std::size_t large = ring_.large_room();
    if (large == ShmChannel::unknown_bytes) return false;
    if (large > room) {
      size_ = SlotRing::Size::large;
      room = std::min(large, std::max(room, preferred_room(bytes)));
    }
  }
  piece_bytes_ = std::min(bytes, room);
  const Cut cut = this->cut(room);
  first_ = ring_.open_rounds(cut.rounds);
  end_ = first_ + cut.rounds;
  given_ = first_;
  give_end_ = first_ + cut.to_give;
  taken_ = cut.takes ? first_ : end_;
  if (!cut.takes && cut.rounds != 0) ring_.finish(end_ - 1, size_);
  planned_ = true;
  return true;
}

bool SlotOperation::advance() {
  if (!planned_ && !plan()) return false;
  share_.begin();
  for (;;) {
    const bool gave = give_next();
    const std::uint64_t before = taken_;
    const bool took = taken_ != end_ && take();
    if (taken_ != before) ring_.finish(taken_ - 1, size_);
    if (given_ == give_end_ && taken_ == end_) return true;
    if (!gave && !took) return false;
    // Whatever was given, or taken: not less than one piece of it.
    share_.add(piece_bytes_);
    if (share_.is_done()) return share_.go_on_later(channel());
  }
}

bool SlotOperation::give_next() {
  if (given_ == give_end_ || !ring_.claim(given_, size_, piece_bytes_)) return false;
  give(given_++);
  return true;
}

void SlotOperation::show(std::uint64_t round) {
  if (request_.op.kind() == ReduceKind::premul_sum)
    ring_.head(rank(), round).factor = request_.op.factor();
  channel().publish(ring_.flag(rank(), round, is_tiny()), SlotFlag::make(round, signature_, 0));
}

// False when the member shows something in this round that belongs to another call: where this
// rank looks, or where it would be if it were shorter or longer.
bool SlotOperation::is_for_this_call(int member, std::uint64_t round, std::uint64_t flag) const {
  const std::uint64_t other = ring_.flag(member, round, !is_tiny()).load(std::memory_order_relaxed);
  return SlotFlag::use(flag) != round && SlotFlag::use(other) != round;
}

void SlotOperation::throw_for_another_call(int member) const {
  throw UsageError(
      fmt::format("group rank {} makes another call where this rank makes {}: its size, dtype, "
                  "operation or root differs",
                  member, to_string(request_.type)),
      {.remedy = "make the same calls with matching arguments in the same order on all ranks"});
}

}  // namespace hymn
