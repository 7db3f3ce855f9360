#include "recorder/sole_writer.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>

namespace hymn {
namespace {

long membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0); }

bool has_fence() {
  const long commands = membarrier(MEMBARRIER_CMD_QUERY);
  return commands > 0 && (commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0;
}

/// In all threads of the process.
bool fence() {
  return membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0 &&
         membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
}

}  // namespace

SoleWriter::SoleWriter() {
  if (has_fence()) return;
  owner_.store(nobody_any_more, std::memory_order_relaxed);
  ended_.store(true, std::memory_order_release);
}

// After the fence the owner either has seen that it is none any more, or it is seen to be inside.
bool SoleWriter::end_now() {
  owner_.store(nobody_any_more, std::memory_order_release);
  if (!fence()) return false;
  while (inside_.load(std::memory_order_acquire)) std::this_thread::yield();
  ended_.store(true, std::memory_order_release);
  return true;
}

}  // namespace hymn
