#include "simulation/real_calls.hpp"

#include <dlfcn.h>

#include <cstdlib>

namespace hymn::sim {
namespace {

// Without a constructor, and without a guard, which is one of the calls.
constinit RealCalls calls{};
constinit bool are_found = false;

template <class Call>
void find(Call& call, const char* name) {
  void* const found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) abort();
  call = reinterpret_cast<Call>(found);
}

/// Conditions have another layout since that version; before glibc 2.36 the name alone finds the
/// old one.
template <class Call>
void find_condition(Call& call, const char* name) {
  void* const found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
  if (found == nullptr) return find(call, name);
  call = reinterpret_cast<Call>(found);
}

void find_all() {
  find(calls.create, "pthread_create");
  find(calls.join, "pthread_join");
  find(calls.lock, "pthread_mutex_lock");
  find(calls.try_lock, "pthread_mutex_trylock");
  find(calls.lock_until, "pthread_mutex_clocklock");
  find(calls.unlock, "pthread_mutex_unlock");
  find(calls.read_lock, "pthread_rwlock_rdlock");
  find(calls.try_read_lock, "pthread_rwlock_tryrdlock");
  find(calls.write_lock, "pthread_rwlock_wrlock");
  find(calls.try_write_lock, "pthread_rwlock_trywrlock");
  find(calls.unlock_rw, "pthread_rwlock_unlock");
  find_condition(calls.wait, "pthread_cond_wait");
  find_condition(calls.timed_wait, "pthread_cond_timedwait");
  find(calls.clock_wait, "pthread_cond_clockwait");
  find_condition(calls.signal, "pthread_cond_signal");
  find_condition(calls.broadcast, "pthread_cond_broadcast");
  find(calls.once, "pthread_once");
  find(calls.clock_gettime, "clock_gettime");
  find(calls.nanosleep, "nanosleep");
  find(calls.clock_nanosleep, "clock_nanosleep");
  find(calls.yield, "sched_yield");
  find(calls.syscall, "syscall");
}

}  // namespace

const RealCalls& real() noexcept {
  if (!are_found) {
    find_all();
    are_found = true;
  }
  return calls;
}

}  // namespace hymn::sim
