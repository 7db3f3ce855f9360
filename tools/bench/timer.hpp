// Times one collective on one rank, in memory of its own, and verifies what comes out.
//
// The iterations of one size are cut into blocks. A block begins with a barrier; the mean of its
// iterations is taken on every rank, and the slowest rank's counts. Before each iteration the whole
// input is written anew with other values, outside the timed part: a buffer that nobody has touched
// since the last iteration would still lie in the caches of its readers.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "hymn/world.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/data.hpp"
#include "tools/bench/report.hpp"

namespace hymn {

class BenchTimer {
 public:
  /// With room for sizes up to `bytes`.
  BenchTimer(World& world, const BenchCase& bench_case, DataType dtype, ReduceOp op,
             std::size_t bytes);

  BenchCall call(const BenchShape& shape) const {
    return BenchCall(case_, shape, dtype_, op_, first_.get(), second_.get());
  }

  /// Mean time of an iteration on this rank, in microseconds. The results of the last `check`
  /// iterations are verified.
  template <class Once>
  double time_block(const BenchCall& call, std::size_t iterations, std::size_t check, Once&& once) {
    if (iterations == 0) return 0;
    all_.barrier();
    Clock::duration spent{0};
    for (std::size_t i = 0; i < iterations; ++i) {
      const std::size_t phase = phase_of_iteration(iteration_++);
      input_.fill(call.input(), phase + phase_of_rank(world_.rank()));
      const auto begin = Clock::now();
      once();
      spent += Clock::now() - begin;
      if (iterations - i <= check) wrong_ += count_wrong(call, phase);
    }
    const double us = std::chrono::duration<double, std::micro>(spent).count();
    return std::max(us / static_cast<double>(iterations) - clock_us_, 0.0);
  }
  /// How many iterations last about `block_us`.
  std::size_t enough_iterations(const BenchCall& call, double block_us,
                                const std::function<void()>& once);
  /// The blocks' times on the slowest rank, summed up. Collective.
  BenchTimes slowest(std::vector<double> block_means);
  /// The number of wrong values over all ranks since this was last asked. Collective.
  std::uint64_t take_wrong();
  /// What reading the clock adds to an iteration; it has been taken off.
  double clock_us() const { return clock_us_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  using Memory = std::unique_ptr<std::byte, Free>;
  static Memory page_aligned(std::size_t bytes);
  std::uint64_t count_wrong(const BenchCall& call, std::size_t phase) const;

  World& world_;
  ProcessGroup all_;  // for what the ranks must agree on
  const BenchCase& case_;
  DataType dtype_;
  ReduceOp op_;
  PeriodicData input_;
  std::optional<PeriodicData> result_;  // of a reduction
  Memory first_;
  Memory second_;
  double clock_us_;
  std::size_t iteration_ = 0;  // of all sizes: each has other inputs
  std::uint64_t wrong_ = 0;    // on this rank
};

}  // namespace hymn
