// Carries out the measurements of `hymn bench` on one rank.
//
// The iterations of one size are cut into blocks. A block begins with a barrier; the mean of its
// iterations is taken on every rank, and the slowest rank's counts. With --vs the other side's
// blocks alternate with hymn's, so that whatever else the machine does falls on both. Before each
// iteration the whole input is written anew with other values, outside the timed part: a buffer
// that nobody has touched since the last iteration would still lie in the caches of its readers.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "hymn/world.hpp"
#include "tools/bench_data.hpp"
#include "tools/bench_options.hpp"
#include "tools/bench_report.hpp"

namespace hymn {

class BenchRunner {
 public:
  /// `reports` is empty but on rank 0. Throws BadArguments for what only the world shows to be
  /// wrong.
  BenchRunner(World& world, const BenchOptions& options, BenchReports reports);

  /// Runs all sizes. Returns the number of wrong values over all ranks and sizes, on every rank.
  std::uint64_t run();

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  using Memory = std::unique_ptr<std::byte, Free>;
  static Memory page_aligned(std::size_t bytes);

  void check_arguments();
  std::vector<std::string> remarks() const;
  BenchShape shape(std::size_t count, bool in_place) const;
  BenchRow describe(const BenchShape& shape, const BenchCall& call) const;
  BenchRow measure(std::size_t count, bool in_place);

  /// Mean time of an iteration on this rank, in microseconds. The results of the last `check`
  /// iterations are verified.
  template <class Once>
  double time_block(const BenchCall& call, std::size_t iterations, std::size_t check, Once&& once);
  std::size_t enough_iterations(const BenchCall& call, const std::function<void()>& once);
  std::uint64_t count_wrong(const BenchCall& call, std::size_t phase) const;
  /// The blocks' times on the slowest rank, summed up.
  BenchTimes slowest(std::vector<double> block_means);

  World& world_;
  ProcessGroup all_;    // for what the ranks must agree on
  ProcessGroup group_;  // what is measured; has the timeout that was asked for
  const BenchOptions& options_;
  const BenchCase& case_;
  BenchReports reports_;
  BenchProgress progress_;
  PeriodicData input_;
  std::optional<PeriodicData> result_;  // of a reduction
  std::vector<std::size_t> counts_;
  Memory first_;
  Memory second_;
  double clock_us_ = 0;        // what reading the clock adds to an iteration
  std::size_t iteration_ = 0;  // of all sizes: each has other inputs
  std::uint64_t wrong_ = 0;    // on this rank, of the current measurement
  std::size_t measured_ = 0;
};

}  // namespace hymn
