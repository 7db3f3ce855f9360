#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

#include "p2p/shm/region.hpp"

namespace hymn {

// Not the PRIVATE forms: the memory may be mapped by several processes.
void futex_wait(const void* word, unsigned expected, long nanoseconds) noexcept {
  const timespec limit{nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
  syscall(SYS_futex, word, FUTEX_WAIT, expected, &limit, nullptr, 0);
}

void futex_wake(const void* word) noexcept {
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace hymn
