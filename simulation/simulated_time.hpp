// The clocks of a simulation.
#pragma once

#include <time.h>

#include "hymn/timeout.hpp"

namespace hymn::sim {

/// What that clock shows at that time. Clocks of wall time begin with the year 2000.
timespec to_clock(clockid_t clock, TimePoint time);
TimePoint from_clock(clockid_t clock, const timespec& shown);
Duration duration_of(const timespec& time);

inline double milliseconds(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace hymn::sim
