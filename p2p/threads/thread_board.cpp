#include "p2p/threads/thread_board.hpp"

#include <thread>

#include "base/schedule_point.hpp"
#include "hymn/error.hpp"

namespace hymn {

ThreadBoard::ThreadBoard(int members) : members_(static_cast<std::uint64_t>(members)) {
  for (std::uint64_t number = 1; number <= ring; ++number) {
    slot(number).number.store(number, std::memory_order_relaxed);
    slot(number).shown.resize(members_);
  }
}

bool ThreadBoard::Visit::try_arrive() {
  MeetingSlot& slot = board_->slot(number_);
  if (!arrived_) {
    // The slot may still hold a meeting that others have not left.
    if (slot.number.load(std::memory_order_acquire) != number_) {
      if ((slot.counts.load(std::memory_order_acquire) & ended) != 0) board_->throw_ended();
      return false;
    }
    slot.shown[static_cast<std::size_t>(member_)] = shown_;
    slot.counts.fetch_add(one_arrived, std::memory_order_acq_rel);
    arrived_ = true;
    show_to_schedule();
  }
  const std::uint64_t counts = slot.counts.load(std::memory_order_acquire);
  if ((counts & ended) != 0) board_->throw_ended();
  return arrived(counts) == board_->members_;
}

const void* ThreadBoard::Visit::shown_by(int member) const {
  return board_->slot(number_).shown[static_cast<std::size_t>(member)];
}

void ThreadBoard::Visit::begin_part() {
  MeetingSlot& slot = board_->slot(number_);
  const std::uint64_t before = slot.counts.fetch_add(one_working, std::memory_order_acq_rel);
  if ((before & ended) == 0) return;
  slot.counts.fetch_sub(one_working, std::memory_order_acq_rel);
  board_->throw_ended();
}

void ThreadBoard::Visit::end_part() {
  board_->slot(number_).counts.fetch_add(one_done - one_working, std::memory_order_acq_rel);
  show_to_schedule();
}

void ThreadBoard::Visit::fail_part() {
  board_->slot(number_).counts.fetch_sub(one_working, std::memory_order_acq_rel);
}

bool ThreadBoard::Visit::try_leave() {
  MeetingSlot& slot = board_->slot(number_);
  const std::uint64_t counts = slot.counts.load(std::memory_order_acquire);
  if (done(counts) != board_->members_) {
    if ((counts & ended) != 0) board_->throw_ended();
    return false;
  }
  if (slot.left.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<int>(board_->members_)) {
    slot.left.store(0, std::memory_order_relaxed);
    // Keep the mark of an ended board; clear the counts.
    slot.counts.fetch_and(ended, std::memory_order_acq_rel);
    slot.number.store(number_ + ring, std::memory_order_release);
    show_to_schedule();
  }
  return true;
}

void ThreadBoard::Visit::abandon(const std::string& reason) noexcept {
  board_->abort(reason);
  if (!arrived_) return;
  // Parts under way read or write our memory; they are short, and no new one can begin.
  while (working(board_->slot(number_).counts.load(std::memory_order_acquire)) != 0)
    std::this_thread::yield();
}

void ThreadBoard::abort(const std::string& reason) noexcept {
  {
    std::lock_guard lock(reason_mutex_);
    if (reason_.empty()) reason_ = reason;
  }
  for (MeetingSlot& slot : slots_) slot.counts.fetch_or(ended, std::memory_order_acq_rel);
}

void ThreadBoard::throw_ended() {
  std::lock_guard lock(reason_mutex_);
  throw AbortedError(reason_);
}

}  // namespace hymn
