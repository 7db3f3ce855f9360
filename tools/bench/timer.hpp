// Times one collective on one rank, in memory of its own, and verifies what comes out. Here in host
// memory; device_timer.hpp in that of a GPU.
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

/// What timers have in common, wherever the buffers are: the inputs, what must come out, and what
/// the ranks must agree on.
class BenchTally {
 public:
  BenchTally(World& world, const BenchCase& bench_case, DataType dtype, ReduceOp op);

  /// How many iterations last about `block_us`; `mean` times so many, in microseconds. Collective.
  std::size_t enough_iterations(double block_us, const std::function<double(std::size_t)>& mean);
  /// The blocks' times on the slowest rank, summed up. Collective.
  BenchTimes slowest(std::vector<double> block_means);
  /// The number of wrong values over all ranks since this was last asked. Collective.
  std::uint64_t take_wrong();
  /// What reading the clock adds to an iteration; it has been taken off.
  double clock_us() const { return clock_us_; }

 protected:
  using Clock = std::chrono::steady_clock;
  /// Each iteration has other inputs, over all sizes.
  std::size_t next_phase() { return phase_of_iteration(iteration_++); }
  /// At which this rank's input begins.
  std::size_t input_phase(std::size_t phase) const { return phase + phase_of_rank(world_.rank()); }
  /// Compares the call's output, of which `found` is a copy, or itself.
  void verify(const BenchCall& call, std::size_t phase, const void* found);
  /// Of all that was measured around `iterations` iterations, the mean of one.
  double mean_us(Clock::duration spent, std::size_t iterations) const;

  World& world_;
  ProcessGroup all_;  // for what the ranks must agree on
  const BenchCase& case_;
  DataType dtype_;
  ReduceOp op_;
  PeriodicData input_;

 private:
  std::vector<double> on_slowest(std::vector<double> means);

  std::optional<PeriodicData> result_;  // of a reduction
  double clock_us_;
  std::size_t iteration_ = 0;
  std::uint64_t wrong_ = 0;  // on this rank
};

/// In host memory.
class BenchTimer : public BenchTally {
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
      const std::size_t phase = next_phase();
      input_.fill(call.input(), input_phase(phase));
      const auto begin = Clock::now();
      once();
      spent += Clock::now() - begin;
      if (iterations - i <= check) verify(call, phase, call.output().data);
    }
    return mean_us(spent, iterations);
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  using Memory = std::unique_ptr<std::byte, Free>;
  static Memory page_aligned(std::size_t bytes);

  Memory first_;
  Memory second_;
};

}  // namespace hymn
