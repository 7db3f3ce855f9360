// A clock that tests set, so that nothing sleeps.
#pragma once

#include <atomic>
#include <functional>
#include <utility>

#include "base/clock.hpp"

namespace hymn::test {

/// Stands still unless told otherwise. Thread-safe.
class FakeClock final : public Clock {
 public:
  TimePoint now() const override {
    const long look = looks_.fetch_add(1);
    if (look == busy_look_.load(std::memory_order_acquire)) happens_();
    return TimePoint(Duration(time_.fetch_add(step_.load())));
  }

  void advance(Duration by) { time_.fetch_add(by.count()); }
  /// From now on every look at the clock moves it by this much.
  void set_step(Duration step) { step_.store(step.count()); }
  /// Whoever looks next but `looks` has lost its core meanwhile: this has happened until it is told
  /// the time. To be called while nobody else looks.
  void let_happen(long looks, std::function<void()> what) {
    happens_ = std::move(what);
    busy_look_.store(looks_.load() + looks, std::memory_order_release);
  }

 private:
  mutable std::atomic<Duration::rep> time_{Duration(std::chrono::hours(1)).count()};
  std::atomic<Duration::rep> step_{0};
  mutable std::atomic<long> looks_{0};
  std::atomic<long> busy_look_{-1};
  std::function<void()> happens_{};
};

}  // namespace hymn::test
