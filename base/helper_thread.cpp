#include "base/helper_thread.hpp"

#include <pthread.h>

#include <csignal>

namespace hymn {

void name_this_thread(const char* name) { pthread_setname_np(pthread_self(), name); }

void become_helper_thread(const char* name) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  name_this_thread(name);
}

}  // namespace hymn
