// Locks and conditions of simulated threads: taken without waiting, or else the scheduler is told.

#include <pthread.h>

#include <cerrno>

#include "simulation/real_calls.hpp"
#include "simulation/scheduler.hpp"
#include "simulation/simulated_time.hpp"

namespace hymn::sim {
namespace {

/// Until `try_it` does not answer EBUSY, which it does while somebody holds `lock`; or until then.
template <class Try>
int take(SimulatedThread& self, const void* lock, TimePoint until, Try try_it) {
  int result = try_it();
  while (result == EBUSY) {
    if (!self.scheduler->block(lock, until)) return ETIMEDOUT;
    result = try_it();
  }
  if (result == 0) self.scheduler->note_locks(1);
  return result;
}

int take_mutex(SimulatedThread& self, pthread_mutex_t* mutex, TimePoint until = never) {
  return take(self, mutex, until, [mutex] { return real().try_lock(mutex); });
}

int lock_mutex(SimulatedThread& self, pthread_mutex_t* mutex, TimePoint until = never) {
  self.scheduler->give_turn(Point::lock);
  return take_mutex(self, mutex, until);
}

int unlock_mutex(SimulatedThread& self, pthread_mutex_t* mutex) {
  const int result = real().unlock(mutex);
  self.scheduler->wake(mutex, true);
  if (result == 0) self.scheduler->note_locks(-1);
  return result;
}

int wait_for_condition(SimulatedThread& self, pthread_cond_t* condition, pthread_mutex_t* mutex,
                       TimePoint until = never) {
  // Somebody without the lock may tell the condition before anybody waits for it.
  self.scheduler->give_turn(Point::lock);
  // Not unlock_mutex(): nobody may come between that and being on the list of who waits.
  real().unlock(mutex);
  self.scheduler->wake(mutex, true);
  --self.locks;
  const bool was_woken = self.scheduler->block(condition, until);
  take_mutex(self, mutex);
  return was_woken ? 0 : ETIMEDOUT;
}

int tell_condition(SimulatedThread& self, pthread_cond_t* condition, bool all) {
  self.scheduler->wake(condition, all);
  self.scheduler->give_turn(Point::shown);
  return 0;
}

/// Who tries in vain may try again and again.
void note_try(SimulatedThread& self, int result) {
  if (result == 0) return self.scheduler->note_locks(1);
  self.scheduler->look_for_news(std::chrono::microseconds(1));
}

/// The clock of limits for this condition, as glibc notes it.
clockid_t clock_of(const pthread_cond_t& condition) {
  return (condition.__data.__wrefs & 2) != 0 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

int lock_rw(SimulatedThread& self, pthread_rwlock_t* lock, int (*try_it)(pthread_rwlock_t*)) {
  self.scheduler->give_turn(Point::lock);
  return take(self, lock, never, [=] { return try_it(lock); });
}

}  // namespace
}  // namespace hymn::sim

using namespace hymn::sim;

extern "C" {

HYMN_STANDS_IN int pthread_mutex_lock(pthread_mutex_t* mutex) {
  SimulatedThread* const self = this_thread();
  return self == nullptr ? real().lock(mutex) : lock_mutex(*self, mutex);
}

HYMN_STANDS_IN int pthread_mutex_trylock(pthread_mutex_t* mutex) {
  const int result = real().try_lock(mutex);
  if (SimulatedThread* const self = this_thread()) note_try(*self, result);
  return result;
}

HYMN_STANDS_IN int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock,
                                           const timespec* until) {
  SimulatedThread* const self = this_thread();
  return self == nullptr ? real().lock_until(mutex, clock, until)
                         : lock_mutex(*self, mutex, from_clock(clock, *until));
}

HYMN_STANDS_IN int pthread_mutex_timedlock(pthread_mutex_t* mutex, const timespec* until) {
  return pthread_mutex_clocklock(mutex, CLOCK_REALTIME, until);
}

HYMN_STANDS_IN int pthread_mutex_unlock(pthread_mutex_t* mutex) {
  SimulatedThread* const self = this_thread();
  return self == nullptr ? real().unlock(mutex) : unlock_mutex(*self, mutex);
}

HYMN_STANDS_IN int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  SimulatedThread* const self = this_thread();
  return self == nullptr ? real().wait(condition, mutex)
                         : wait_for_condition(*self, condition, mutex);
}

HYMN_STANDS_IN int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                          const timespec* until) {
  SimulatedThread* const self = this_thread();
  return self == nullptr ? real().timed_wait(condition, mutex, until)
                         : wait_for_condition(*self, condition, mutex,
                                              from_clock(clock_of(*condition), *until));
}

HYMN_STANDS_IN int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                          clockid_t clock, const timespec* until) {
  SimulatedThread* const self = this_thread();
  return self == nullptr ? real().clock_wait(condition, mutex, clock, until)
                         : wait_for_condition(*self, condition, mutex, from_clock(clock, *until));
}

HYMN_STANDS_IN int pthread_cond_signal(pthread_cond_t* condition) {
  SimulatedThread* const self = this_thread();
  return self == nullptr ? real().signal(condition) : tell_condition(*self, condition, false);
}

HYMN_STANDS_IN int pthread_cond_broadcast(pthread_cond_t* condition) {
  SimulatedThread* const self = this_thread();
  return self == nullptr ? real().broadcast(condition) : tell_condition(*self, condition, true);
}

HYMN_STANDS_IN int pthread_rwlock_rdlock(pthread_rwlock_t* lock) {
  SimulatedThread* const self = this_thread();
  return self == nullptr ? real().read_lock(lock) : lock_rw(*self, lock, real().try_read_lock);
}

HYMN_STANDS_IN int pthread_rwlock_wrlock(pthread_rwlock_t* lock) {
  SimulatedThread* const self = this_thread();
  return self == nullptr ? real().write_lock(lock) : lock_rw(*self, lock, real().try_write_lock);
}

HYMN_STANDS_IN int pthread_rwlock_tryrdlock(pthread_rwlock_t* lock) {
  const int result = real().try_read_lock(lock);
  if (SimulatedThread* const self = this_thread()) note_try(*self, result);
  return result;
}

HYMN_STANDS_IN int pthread_rwlock_trywrlock(pthread_rwlock_t* lock) {
  const int result = real().try_write_lock(lock);
  if (SimulatedThread* const self = this_thread()) note_try(*self, result);
  return result;
}

HYMN_STANDS_IN int pthread_rwlock_unlock(pthread_rwlock_t* lock) {
  const int result = real().unlock_rw(lock);
  if (SimulatedThread* const self = this_thread()) {
    self->scheduler->wake(lock, true);
    self->scheduler->note_locks(-1);
  }
  return result;
}
}
