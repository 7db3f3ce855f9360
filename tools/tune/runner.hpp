// Carries out the measurements of `hymn tune` for one collective, on one rank.
//
// Each candidate is forced by a group of its own. Blocks of iterations of all candidates alternate
// and take turns in coming first, so that whatever else the machine does falls on all.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "collectives/planner/tuning_table.hpp"
#include "tools/bench/options.hpp"
#include "tools/bench/timer.hpp"
#include "tools/tune/options.hpp"

namespace hymn {

/// What changes for one size.
struct TuneChange {
  std::size_t bytes = 0;
  std::string before;  ///< "mpi (all_reduce_mpi)"
  std::string after;
  double before_us = 0;  ///< as measured
  double after_us = 0;
};

struct TuneResult {
  std::vector<TuningRow> rows;
  std::vector<TuneChange> changes;  ///< of each size, ascending
};

class TuneRunner {
 public:
  TuneRunner(World& world, const BenchCase& bench_case, const TuneOptions& options);

  /// Collective. `progress` is told each size before it is measured. Throws std::runtime_error on
  /// all ranks when a result was wrong.
  TuneResult run(const std::function<void(std::size_t bytes)>& progress);

 private:
  /// A candidate and the group that is forced to take it.
  struct Contender {
    TuningRow row;
    ProcessGroup group;
    std::size_t iterations = 0;
    std::vector<double> means;
  };
  Contender& contender_for(const Candidate& candidate);
  std::vector<Contender*> contenders_for(const BenchCall& call);
  void measure(const BenchCall& call, const std::vector<Contender*>& contenders);
  TuneChange change_at(std::size_t bytes, const BenchCall& call,
                       const std::vector<Contender*>& contenders) const;

  World& world_;
  const BenchCase& case_;
  const TuneOptions& options_;
  BenchOptions sizes_;
  BenchTimer timer_;
  std::vector<std::unique_ptr<Contender>> contenders_;
};

}  // namespace hymn
