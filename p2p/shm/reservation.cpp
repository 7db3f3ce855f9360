#include "p2p/shm/reservation.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>

#include "p2p/shm/region_plan.hpp"
#include "topology/read_machine.hpp"

namespace hymn {
namespace {

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

constexpr std::size_t page = RegionPlan::page_bytes;
// Between two steps is time to see what others have taken meanwhile.
constexpr std::size_t step_bytes = std::size_t{32} << 20;

/// What memory there is. To look takes a few files of /proc and /sys, too long for every small
/// request: a small share of what was there is given away without looking again.
class Budget {
 public:
  /// Whether `bytes` may be taken; if not, says why. Half of what is left is never taken: others
  /// ask at the same time, and the kernel needs page tables.
  std::string refusal(std::size_t bytes) {
    std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (bytes > credit_ || now - looked_ > std::chrono::seconds(2)) {
      limits_ = read_memory_limits();
      looked_ = now;
      credit_ = limits_.usable_bytes() / 64;
    }
    if (bytes <= credit_) {
      credit_ -= bytes;
      return "";
    }
    credit_ = 0;
    // A system that does not tell is asked by trying.
    const std::uint64_t usable = limits_.usable_bytes();
    if (usable == 0 || bytes <= usable / 2) return "";
    if (limits_.cgroup_max_bytes && usable < limits_.available_bytes)
      return fmt::format("{} of the {} bytes that this process's cgroup may use are left", usable,
                         *limits_.cgroup_max_bytes);
    return fmt::format("{} of the {} bytes of this host are left", usable, limits_.total_bytes);
  }

 private:
  std::mutex mutex_;
  std::chrono::steady_clock::time_point looked_{};
  std::size_t credit_ = 0;
  MemoryLimits limits_;
};

Budget& budget() {
  static auto* one = new Budget();
  return *one;
}

/// 0, or what went wrong. What was made real before that stays so.
int populate(std::byte* begin, std::size_t bytes, const Descriptor& memory, std::size_t offset) {
  for (;;) {
    if (madvise(begin, bytes, MADV_POPULATE_WRITE) == 0) return 0;
    if (errno == EFAULT) return ENOSPC;
    if (errno == EINVAL) break;
    if (errno != EINTR && errno != EAGAIN) return errno;
  }
  while (fallocate(memory.number(), 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0)
    if (errno != EINTR) return errno;
  return 0;
}

/// As populate(); on failure nothing of the range is kept.
std::string take(std::byte* begin, std::size_t bytes, const Descriptor& memory, std::size_t offset,
                 int sharers) {
  std::string refusal = budget().refusal(bytes * static_cast<std::size_t>(sharers));
  if (!refusal.empty()) return refusal;
  const int error = populate(begin, bytes, memory, offset);
  if (error == 0) return "";
  madvise(begin, bytes, MADV_REMOVE);
  return fmt::format("the kernel says '{}'", std::strerror(error));
}

}  // namespace

Reservation reserve_memory(const SharedMapping& mapping, const Descriptor& memory,
                           std::size_t offset, std::size_t bytes, int sharers) {
  std::size_t done = 0;
  std::size_t step = step_bytes;
  std::string why;
  while (done < bytes && step >= page) {
    const std::size_t next = std::min(step, bytes - done);
    std::string problem =
        take(mapping.base() + offset + done, next, memory, offset + done, sharers);
    if (problem.empty()) {
      done += next;
      continue;
    }
    why = std::move(problem);
    step = next / 2 / page * page;
  }
  if (done == bytes) return {done, ""};
  return {done, fmt::format("{} bytes of shared memory for each of {} ranks are wanted, {} can be "
                            "had: {}; give the job more memory or run fewer ranks on this host",
                            bytes, sharers, done, why)};
}

bool can_populate(const SharedMapping& mapping) noexcept {
  return madvise(mapping.base(), std::min(page, mapping.bytes()), MADV_POPULATE_WRITE) == 0;
}

}  // namespace hymn
