// One thread of a simulation.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "hymn/timeout.hpp"

namespace hymn::sim {

class Scheduler;

inline constexpr TimePoint never = TimePoint::max();
/// What lasts longer lasts for ever.
inline constexpr Duration longest_time = std::chrono::hours(24 * 3650);

/// Only the thread that runs looks at any of them, or changes them.
struct SimulatedThread {
  enum class State : std::uint8_t {
    able,     ///< it could go on
    looking,  ///< for news of others; then, or when it is time, it could
    asleep,   ///< until it is time
    blocked,  ///< until it is woken, or it is time
    ended,
  };

  Scheduler* scheduler = nullptr;
  int id = 0;     ///< in the order of their starts
  int rank = -1;  ///< whose it is; -1: nobody's
  State state = State::able;
  const void* blocked_on = nullptr;
  TimePoint wakes = never;
  std::uint64_t wakes_at_step = 0;  ///< asleep: not 0: instead of a time
  Duration waits_for{0};            ///< how long it would sleep, from the beginning
  std::uint64_t seen_news = 0;      ///< looking: what it had seen
  bool was_woken = false;           ///< blocked: not by the time
  int locks = 0;                    ///< that it holds
  std::uint64_t points = 0;         ///< at which it could have been interrupted, but went on
  std::uint64_t waits = 0;          ///< since the last of these
  bool looks_after_all = false;     ///< again and again, for all ranks: it may miss some looks
  bool goes_first = false;          ///< whenever it could go on
  bool has_died = false;            ///< its stack is being unwound
  pthread_t handle{};
  std::atomic<std::uint32_t> baton{0};  ///< 1: it runs
};

/// The calling thread; null: it is none of a simulation's.
SimulatedThread*& this_thread() noexcept;

}  // namespace hymn::sim
