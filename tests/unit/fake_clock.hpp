// A clock that tests set, so that nothing sleeps.
#pragma once

#include <atomic>

#include "base/clock.hpp"

namespace hymn::test {

/// Stands still unless told otherwise. Thread-safe.
class FakeClock final : public Clock {
 public:
  TimePoint now() const override { return TimePoint(Duration(time_.fetch_add(step_.load()))); }

  void advance(Duration by) { time_.fetch_add(by.count()); }
  /// From now on every look at the clock moves it by this much.
  void set_step(Duration step) { step_.store(step.count()); }

 private:
  mutable std::atomic<Duration::rep> time_{Duration(std::chrono::hours(1)).count()};
  std::atomic<Duration::rep> step_{0};
};

}  // namespace hymn::test
