// The time, behind a seam: tests of timeouts set their own clock and do not sleep.
#pragma once

#include "hymn/timeout.hpp"

namespace hymn {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
};

inline const Clock& steady_clock() {
  static const SteadyClock clock;
  return clock;
}

}  // namespace hymn
