// Carries out the measurements of `hymn bench` on one rank.
//
// With --vs the other side's blocks of iterations alternate with hymn's, so that whatever else the
// machine does falls on both.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hymn/world.hpp"
#include "tools/bench/options.hpp"
#include "tools/bench/report.hpp"
#include "tools/bench/timer.hpp"

namespace hymn {

class BenchRunner {
 public:
  /// `reports` is empty but on rank 0. Throws BadArguments for what only the world shows to be
  /// wrong.
  BenchRunner(World& world, const BenchOptions& options, BenchReports reports);

  /// Runs all sizes. Returns the number of wrong values over all ranks and sizes, on every rank.
  std::uint64_t run();

 private:
  void check_arguments();
  std::vector<std::string> remarks() const;
  BenchShape shape(std::size_t count, bool in_place) const;
  BenchRow describe(const BenchShape& shape, const BenchCall& call) const;
  BenchRow measure(std::size_t count, bool in_place);

  World& world_;
  ProcessGroup group_;  // what is measured; has the timeout that was asked for
  const BenchOptions& options_;
  const BenchCase& case_;
  BenchReports reports_;
  BenchProgress progress_;
  std::vector<std::size_t> counts_;
  BenchTimer timer_;
  std::size_t measured_ = 0;
};

}  // namespace hymn
