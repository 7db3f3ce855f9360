// Who else wants the cores of this process: what was counted beforehand, and what waits have shown
// since.
#pragma once

#include <atomic>

#include "hymn/timeout.hpp"

namespace hymn {

/// Where those are for whom a thread waits.
enum class Awaited {
  somewhere,  ///< not known
  here,       ///< one of them was on the waiting thread's core when it was last seen
  elsewhere,  ///< all of them were on other cores
};

/// What a world knows of its ranks and their cores. Thread-safe.
class Oversubscription {
 public:
  /// `counted`: the ranks are more than their cores. That it is false does not say that they have
  /// them to themselves: other processes may run there, and the kernel moves ranks as it likes.
  explicit Oversubscription(bool counted) : counted_(counted) {}

  bool is_counted() const { return counted_; }
  /// Whether the last wait that has looked was for somebody on its own core.
  bool is_noticed() const { return noticed_.load(std::memory_order_relaxed); }
  void notice(bool here) {
    if (is_noticed() != here) noticed_.store(here, std::memory_order_relaxed);
  }

 private:
  bool counted_;
  std::atomic<bool> noticed_{false};
};

/// Whether others want a thread's core, by how often the kernel has taken it away.
class CorePressure {
 public:
  /// `switches`: how often it has been taken away so far.
  void count(long switches, TimePoint now) {
    const long more = switches - switches_;
    // Nobody knows when in a long time that was.
    const bool is_news = now - counted_at_ <= memory;
    switches_ = switches;
    counted_at_ = now;
    if (!is_news || more <= 0) return;
    before_ = more == 1 ? last_ : now;
    last_ = now;
  }
  /// Once may have been the kernel itself.
  bool is_high(TimePoint now) const { return before_ != TimePoint{} && now - before_ <= memory; }

  /// A thread that has to share its core loses it every few milliseconds.
  static constexpr Duration memory = std::chrono::milliseconds(100);

 private:
  long switches_ = 0;
  TimePoint counted_at_{};
  TimePoint before_{};  ///< when it was taken away the last time but one
  TimePoint last_{};
};

}  // namespace hymn
