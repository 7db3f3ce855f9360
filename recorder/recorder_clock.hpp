// From stamps to times.
#pragma once

#include <cstdint>

#include "recorder/stamp.hpp"

namespace hymn {

/// All clocks, read as one.
struct ClockReading {
  std::uint64_t stamp = 0;
  std::int64_t steady_ns = 0;
  std::int64_t wall_ns = 0;  ///< since 1970

  static ClockReading now();
};

/// What stamps mean, from two readings of the clocks of one host.
class StampClock {
 public:
  StampClock(const ClockReading& earlier, const ClockReading& later);
  /// As the wall clock was at the later reading: a step of it in between moves all times alike.
  std::int64_t wall_ns(std::uint64_t stamp) const;
  std::int64_t duration_ns(std::uint64_t from, std::uint64_t to) const;

 private:
  ClockReading later_;
  double ns_per_tick_;
};

}  // namespace hymn
