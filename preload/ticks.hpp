// The same stamps as the recorder's (recorder/stamp.hpp), which no simulation changes here.
#pragma once

#include <cstdint>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ctime>
#endif

namespace hymn::preload {

inline std::uint64_t ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  std::uint64_t counted;
  asm volatile("mrs %0, cntvct_el0" : "=r"(counted));
  return counted;
#else
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
#endif
}

}  // namespace hymn::preload
