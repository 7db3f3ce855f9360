// A stamp of time that costs a few nanoseconds: a counter of the processor, the same on all cores
// of a host, whose ticks become wall time only when somebody looks (recorder_clock.hpp).
#pragma once

#include <cstdint>

#include "base/schedule_point.hpp"

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ctime>
#endif

namespace hymn {

/// The real one, also in a simulation.
inline std::uint64_t processor_stamp() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  std::uint64_t ticks;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
#endif
}

inline std::uint64_t time_stamp() {
  if (simulated_schedule() != nullptr) [[unlikely]]
    return simulated_stamp();
  return processor_stamp();
}

}  // namespace hymn
