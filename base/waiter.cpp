#include "base/waiter.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <time.h>

namespace hymn {

std::atomic<Schedule*> schedule_of_process{nullptr};

std::uint64_t simulated_stamp() {
  return static_cast<std::uint64_t>(WaitingThread::now().time_since_epoch().count());
}

void set_simulated_schedule(Schedule* schedule) noexcept {
  schedule_of_process.store(schedule, std::memory_order_relaxed);
}

void WaitingThread::yield() { sched_yield(); }

void WaitingThread::nap(long nanoseconds) {
  const timespec nap{0, nanoseconds};
  nanosleep(&nap, nullptr);
}

TimePoint WaitingThread::now() { return std::chrono::steady_clock::now(); }

long WaitingThread::switches() {
  rusage usage{};
  return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
}

CorePressure& WaitingThread::pressure() {
  thread_local CorePressure pressure;
  return pressure;
}

YieldPrice& WaitingThread::yield_price() {
  thread_local YieldPrice price;
  return price;
}

CoreEscape& WaitingThread::core_escape() {
  thread_local CoreEscape escape;
  return escape;
}

}  // namespace hymn
