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

// Between two steps is time to see what others have taken meanwhile.
constexpr std::size_t step_bytes = std::size_t{32} << 20;
constexpr std::uint64_t least_kept = std::uint64_t{8} << 20;

/// What memory there is. To look takes a few files of /proc and /sys, too long for every small
/// request: a small share of what was there is given away without looking again.
class Budget {
 public:
  struct Grant {
    std::size_t bytes = 0;
    std::string why;  ///< these are not all
  };
  /// How many of so many bytes may be taken. The last of what there is never is: programs need more
  /// than what is shared, and the kernel needs page tables.
  Grant ask(std::size_t bytes) {
    std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    // A process made by fork() may be under other limits.
    if (bytes > credit_ || now - looked_ > std::chrono::seconds(2) || getpid() != looker_) {
      limits_ = read_memory_limits();
      looked_ = now;
      looker_ = getpid();
      credit_ = limits_.usable_bytes() / 64;
    }
    if (bytes <= credit_) {
      credit_ -= bytes;
      return {bytes, ""};
    }
    credit_ = 0;
    const std::uint64_t usable = limits_.usable_bytes();
    const bool in_cgroup = limits_.cgroup_max_bytes && usable < limits_.available_bytes;
    const std::uint64_t all = in_cgroup ? *limits_.cgroup_max_bytes : limits_.total_bytes;
    const std::uint64_t kept = std::max(least_kept, all / 16);
    // A system that does not tell is asked by trying.
    const std::uint64_t most = usable > kept ? usable - kept : 0;
    if (all == 0 || bytes <= most) return {bytes, ""};
    return {most,
            fmt::format("{} of the {} bytes {} are left, and {} stay free for others", usable, all,
                        in_cgroup ? "that this process's cgroup may use" : "of this host", kept)};
  }

 private:
  std::mutex mutex_;
  std::chrono::steady_clock::time_point looked_{};
  pid_t looker_ = -1;
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

/// Makes memory real until it is all there, or something is in the way: says what.
class Taker {
 public:
  Taker(const SharedMapping& mapping, const Descriptor& memory, std::size_t offset, int sharers)
      : mapping_(mapping),
        memory_(memory),
        offset_(offset),
        sharers_(static_cast<std::size_t>(sharers)) {}

  /// How many of so many bytes there is memory for now, in whole pages where these are fewer.
  std::size_t look(std::size_t bytes) {
    std::size_t together = 0;
    if (__builtin_mul_overflow(bytes, sharers_, &together)) together = SIZE_MAX;
    Budget::Grant grant = budget().ask(together);
    if (grant.why.empty()) return bytes;
    why = std::move(grant.why);
    return std::min(bytes, grant.bytes / sharers_ / page_ * page_);
  }

  void take(std::size_t bytes) {
    std::size_t step = step_bytes;
    while (done < bytes && step >= page_) {
      const std::size_t next = std::min(step, bytes - done);
      // The first step has been looked for.
      if (done != 0 && look(next) < next) return;
      std::byte* const begin = mapping_.base() + offset_ + done;
      const int error = populate(begin, next, memory_, offset_ + done);
      if (error == 0) {
        done += next;
        continue;
      }
      madvise(begin, next, MADV_REMOVE);
      why = fmt::format("the kernel says '{}'", std::strerror(error));
      step = next / 2 / page_ * page_;
    }
  }

  std::size_t done = 0;
  std::string why;

 private:
  const SharedMapping& mapping_;
  const Descriptor& memory_;
  std::size_t offset_;
  std::size_t sharers_;
  const std::size_t page_ = RegionPlan::page_of_machine();
};

}  // namespace

Reservation reserve_memory(const SharedMapping& mapping, const Descriptor& memory,
                           std::size_t offset, std::size_t bytes, int sharers, Need need) {
  Taker taker(mapping, memory, offset, sharers);
  const std::size_t possible = taker.look(bytes);
  if (need == Need::some || possible == bytes) taker.take(possible);
  if (taker.done == bytes) return {bytes, ""};
  if (need == Need::all && taker.done != 0) {
    madvise(mapping.base() + offset, taker.done, MADV_REMOVE);
    taker.done = 0;
  }
  return {taker.done,
          fmt::format(
              "{} bytes of shared memory are wanted for each of {} ranks, but {} are available: "
              "{}; give the job more memory or run fewer ranks on this host",
              bytes, sharers, taker.done, taker.why)};
}

bool reserve_private(std::byte* begin, std::size_t bytes) {
  if (!budget().ask(bytes).why.empty()) return false;
  // Kernels that cannot populate give the pages out when they are written.
  return madvise(begin, bytes, MADV_POPULATE_WRITE) == 0 || errno == EINVAL;
}

bool can_populate(const SharedMapping& mapping) noexcept {
  return madvise(mapping.base(), std::min(RegionPlan::page_of_machine(), mapping.bytes()),
                 MADV_POPULATE_WRITE) == 0;
}

}  // namespace hymn
