// What a process has once: never destroyed, for its threads may be anywhere when static objects
// end, and made anew in a child of fork(), which has none of these threads.
#pragma once

#include <unistd.h>

#include <atomic>

namespace hymn_torch {

template <class T, class Make>
T& only_of_process(Make make) {
  struct Kept {
    pid_t process;
    T* object;
  };
  static std::atomic<Kept*> kept{nullptr};
  Kept* found = kept.load(std::memory_order_acquire);
  while (found == nullptr || found->process != getpid()) {
    auto* const fresh = new Kept{getpid(), make()};  // of several that are made at once one is used
    if (kept.compare_exchange_strong(found, fresh, std::memory_order_acq_rel)) found = fresh;
  }
  return *found->object;
}

}  // namespace hymn_torch
