// Clocks, sleeps and futexes of simulated threads.

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>

#include "simulation/real_calls.hpp"
#include "simulation/scheduler.hpp"
#include "simulation/simulated_time.hpp"

namespace hymn::sim {
namespace {

constexpr std::chrono::seconds year_2000{946'684'800};

bool is_wall_clock(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
}

/// Those of processors tell what has been computed, which is no part of a simulation.
bool is_simulated(clockid_t clock) {
  return is_wall_clock(clock) || clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_RAW ||
         clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_BOOTTIME;
}

Duration beginning_of(clockid_t clock) { return is_wall_clock(clock) ? year_2000 : Duration(0); }

int sleep_for(SimulatedThread& self, Duration duration) {
  self.scheduler->sleep_until(self.scheduler->now() + duration);
  return 0;
}

long wait_on_word(SimulatedThread& self, const std::uint32_t* word, std::uint32_t expected,
                  TimePoint until) {
  const auto seen = std::atomic_ref(*const_cast<std::uint32_t*>(word)).load();
  if (seen != expected) return errno = EAGAIN, -1;
  if (self.scheduler->block(word, until)) return 0;
  return errno = ETIMEDOUT, -1;
}

/// Of a simulated thread; what is neither to wait nor to wake is the kernel's.
struct FutexCall {
  std::uint32_t* word;
  int operation;
  std::uint32_t value;
  const timespec* limit;
};

bool is_wait(int command) { return command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET; }
bool is_wake(int command) { return command == FUTEX_WAKE || command == FUTEX_WAKE_BITSET; }

long call_futex(SimulatedThread& self, const FutexCall& call) {
  const int command = call.operation & FUTEX_CMD_MASK;
  if (is_wake(command)) {
    long woken = self.scheduler->wake(call.word, call.value > 1);
    // Who is no thread of the simulation may sleep there, too.
    woken +=
        real().syscall(SYS_futex, call.word, FUTEX_WAKE | (call.operation & FUTEX_PRIVATE_FLAG),
                       INT_MAX, nullptr, nullptr, 0);
    self.scheduler->give_turn(Point::shown);
    return woken;
  }
  TimePoint until = never;
  if (call.limit != nullptr) {
    // The one is how long, the other is until when.
    const bool is_wall = (call.operation & FUTEX_CLOCK_REALTIME) != 0;
    until = command == FUTEX_WAIT
                ? self.scheduler->now() + duration_of(*call.limit)
                : from_clock(is_wall ? CLOCK_REALTIME : CLOCK_MONOTONIC, *call.limit);
  }
  return wait_on_word(self, call.word, call.value, until);
}

}  // namespace

Duration duration_of(const timespec& time) {
  constexpr std::time_t most = 1LL << 32;  // seconds: what is longer never ends
  if (time.tv_sec > most) return std::chrono::seconds(most);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

timespec to_clock(clockid_t clock, TimePoint time) {
  const Duration shown = time.time_since_epoch() + beginning_of(clock);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(shown);
  return {seconds.count(), std::chrono::nanoseconds(shown - seconds).count()};
}

TimePoint from_clock(clockid_t clock, const timespec& shown) {
  constexpr std::time_t most = 1LL << 32;  // what is further away never comes
  if (shown.tv_sec > most) return never;
  return TimePoint{} + (duration_of(shown) - beginning_of(clock));
}

}  // namespace hymn::sim

using namespace hymn::sim;

extern "C" {

HYMN_STANDS_IN int clock_gettime(clockid_t clock, timespec* shown) noexcept {
  SimulatedThread* const self = this_thread();
  if (self == nullptr || !is_simulated(clock)) return real().clock_gettime(clock, shown);
  *shown = to_clock(clock, self->scheduler->read_clock());
  return 0;
}

HYMN_STANDS_IN int nanosleep(const timespec* duration, timespec* left) {
  SimulatedThread* const self = this_thread();
  return self == nullptr ? real().nanosleep(duration, left)
                         : sleep_for(*self, duration_of(*duration));
}

HYMN_STANDS_IN int clock_nanosleep(clockid_t clock, int flags, const timespec* time,
                                   timespec* left) {
  SimulatedThread* const self = this_thread();
  if (self == nullptr || !is_simulated(clock))
    return real().clock_nanosleep(clock, flags, time, left);
  if (flags != TIMER_ABSTIME) return sleep_for(*self, duration_of(*time));
  self->scheduler->sleep_until(from_clock(clock, *time));
  return 0;
}

HYMN_STANDS_IN time_t time(time_t* shown) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (shown != nullptr) *shown = now.tv_sec;
  return now.tv_sec;
}

HYMN_STANDS_IN int gettimeofday(timeval* __restrict shown, void* __restrict) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  *shown = {now.tv_sec, now.tv_nsec / 1000};
  return 0;
}

HYMN_STANDS_IN int usleep(useconds_t microseconds) {
  const timespec duration{microseconds / 1'000'000, microseconds % 1'000'000 * 1000L};
  return nanosleep(&duration, nullptr);
}

HYMN_STANDS_IN unsigned int sleep(unsigned int seconds) {
  const timespec duration{seconds, 0};
  nanosleep(&duration, nullptr);
  return 0;
}

// Who gives its core away waits for others to do something.
HYMN_STANDS_IN int sched_yield() noexcept {
  SimulatedThread* const self = this_thread();
  if (self == nullptr) return real().yield();
  self->scheduler->look_for_news(std::chrono::microseconds(10));
  return 0;
}

HYMN_STANDS_IN long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  long given[6];
  for (long& one : given) one = va_arg(list, long);
  va_end(list);
  SimulatedThread* const self = this_thread();
  if (self != nullptr && number == SYS_futex) {
    const FutexCall call{reinterpret_cast<std::uint32_t*>(given[0]), static_cast<int>(given[1]),
                         static_cast<std::uint32_t>(given[2]),
                         reinterpret_cast<const timespec*>(given[3])};
    const int command = call.operation & FUTEX_CMD_MASK;
    if (is_wait(command) || is_wake(command)) return call_futex(*self, call);
  }
  return real().syscall(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}
}
