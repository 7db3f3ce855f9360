#include "recorder/recorder_clock.hpp"

#include <cmath>
#include <ctime>

namespace hymn {
namespace {

std::int64_t read_clock(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

ClockReading ClockReading::now() {
  // The thread may lose its core in between: the closest of several readings is taken.
  constexpr int tries = 5;
  ClockReading best;
  std::uint64_t closest = ~std::uint64_t{0};
  for (int i = 0; i < tries; ++i) {
    const std::uint64_t before = time_stamp();
    const std::int64_t steady = read_clock(CLOCK_MONOTONIC);
    const std::int64_t wall = read_clock(CLOCK_REALTIME);
    const std::uint64_t after = time_stamp();
    if (after - before >= closest) continue;
    closest = after - before;
    best = {before + (after - before) / 2, steady, wall};
  }
  return best;
}

StampClock::StampClock(const ClockReading& earlier, const ClockReading& later)
    : later_(later), ns_per_tick_(1) {
  if (later.stamp > earlier.stamp && later.steady_ns > earlier.steady_ns)
    ns_per_tick_ = static_cast<double>(later.steady_ns - earlier.steady_ns) /
                   static_cast<double>(later.stamp - earlier.stamp);
}

std::int64_t StampClock::duration_ns(std::uint64_t from, std::uint64_t to) const {
  const bool forward = to >= from;
  const double ticks = static_cast<double>(forward ? to - from : from - to);
  const auto ns = std::llround(ticks * ns_per_tick_);
  return forward ? ns : -ns;
}

std::int64_t StampClock::wall_ns(std::uint64_t stamp) const {
  return later_.wall_ns - duration_ns(stamp, later_.stamp);
}

}  // namespace hymn
