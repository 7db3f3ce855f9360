// What this library stands in for, as libc and libstdc++ have it.
#pragma once

#include <pthread.h>
#include <time.h>

/// Before each function that stands in for one of libc's.
#define HYMN_STANDS_IN [[gnu::visibility("default")]]

namespace hymn::sim {

struct RealCalls {
  int (*create)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  int (*join)(pthread_t, void**);
  int (*lock)(pthread_mutex_t*);
  int (*try_lock)(pthread_mutex_t*);
  int (*lock_until)(pthread_mutex_t*, clockid_t, const timespec*);
  int (*unlock)(pthread_mutex_t*);
  int (*read_lock)(pthread_rwlock_t*);
  int (*try_read_lock)(pthread_rwlock_t*);
  int (*write_lock)(pthread_rwlock_t*);
  int (*try_write_lock)(pthread_rwlock_t*);
  int (*unlock_rw)(pthread_rwlock_t*);
  int (*wait)(pthread_cond_t*, pthread_mutex_t*);
  int (*timed_wait)(pthread_cond_t*, pthread_mutex_t*, const timespec*);
  int (*clock_wait)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*);
  int (*signal)(pthread_cond_t*);
  int (*broadcast)(pthread_cond_t*);
  int (*once)(pthread_once_t*, void (*)());
  int (*clock_gettime)(clockid_t, timespec*);
  int (*nanosleep)(const timespec*, timespec*);
  int (*clock_nanosleep)(clockid_t, int, const timespec*, timespec*);
  int (*yield)();
  long (*syscall)(long, ...);
};

/// Found at the first call, which may come before any constructor has run.
const RealCalls& real() noexcept;

}  // namespace hymn::sim
