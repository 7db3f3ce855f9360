// How often which call was made, and who carried it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "preload/calls.hpp"
#include "preload/reasons.hpp"

namespace hymn::preload {

/// Of one call. Times are ticks of the processor, and counted only for a report.
struct CallCount {
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::uint64_t> ticks{0};
  std::atomic<std::uint64_t> carried_ticks{0};
  std::atomic<std::uint64_t> mpi_ticks{0};  ///< that MPI should have taken for what was carried
  std::array<std::atomic<std::uint64_t>, reason_count> reasons{};
};

/// Of this process. Where threads may call at the same time additions are atomic.
class Counts {
 public:
  explicit Counts(bool may_overlap) : may_overlap_(may_overlap) {}

  CallCount& of(Call call) { return counts_[index_of(call)]; }
  const CallCount& of(Call call) const { return counts_[index_of(call)]; }
  void add(std::atomic<std::uint64_t>& count, std::uint64_t more = 1) const {
    if (may_overlap_)
      count.fetch_add(more, std::memory_order_relaxed);
    else
      count.store(count.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }

 private:
  const bool may_overlap_;
  std::array<CallCount, call_count> counts_{};
};

}  // namespace hymn::preload
