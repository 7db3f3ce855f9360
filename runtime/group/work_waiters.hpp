// Who waits for a work; and, where nobody does, whether anything moves it on.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "hymn/timeout.hpp"
#include "runtime/group/work_parts.hpp"

namespace hymn::detail {

/// Thread-safe, but for what is said otherwise.
class WorkWaiters {
 public:
  explicit WorkWaiters(const WorkParts& parts) : parts_(parts) {}

  /// A thread has come to wait, or gone; the records tell whether there is one.
  void add();
  void remove(bool has_ended);
  /// The same of one that waits for any of several: it may go on without this one, as who tests
  /// may, so that the records tell of no wait.
  void add_to_any() { any_.fetch_add(1, std::memory_order_relaxed); }
  void remove_from_any() { any_.fetch_sub(1, std::memory_order_relaxed); }
  bool there_are() const {
    return sure_.load(std::memory_order_relaxed) != 0 || any_.load(std::memory_order_relaxed) != 0;
  }

  /// The same of those with a limit of their own: meanwhile the operation's own is not looked at.
  void add_limit() { limits_.fetch_add(1, std::memory_order_relaxed); }
  void remove_limit();
  bool have_limits() const { return limits_.load(std::memory_order_relaxed) != 0; }

  /// That it is overdue has been seen to. Forgotten when somebody has waited with another limit.
  bool is_seen_to() const { return is_seen_to_.load(std::memory_order_relaxed); }
  void set_seen_to(bool seen_to) { is_seen_to_.store(seen_to, std::memory_order_relaxed); }

  /// The work is moved on. Under its step lock.
  void note_step() {
    steps_.store(steps_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  /// By the thread that beats: finds out whether anything has moved it on of late. `by_itself`: a
  /// thread does, whoever waits.
  void look(TimePoint now, bool by_itself);
  /// Nothing has, as far as was looked, and nobody waits.
  bool is_undriven() const { return is_undriven_.load(std::memory_order_relaxed) && !there_are(); }

 private:
  const WorkParts& parts_;
  std::atomic<int> sure_{0};
  std::atomic<int> any_{0};
  std::atomic<int> limits_{0};
  std::atomic<bool> is_seen_to_{false};
  std::atomic<std::uint32_t> steps_{0};
  std::uint32_t steps_seen_ = 0;  // these two by the thread that beats
  std::optional<TimePoint> moved_on_{};
  std::atomic<bool> is_undriven_{false};
};

}  // namespace hymn::detail
