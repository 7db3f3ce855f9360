// Carries out the measurements of `hymn tune` for one collective, on one rank.
//
// Each candidate is forced by a group of its own. Blocks of iterations of all candidates alternate
// and take turns in coming first, so that whatever else the machine does falls on all.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/planner/tuning_table.hpp"
#include "tools/bench/device_timer.hpp"
#include "tools/bench/options.hpp"
#include "tools/bench/timer.hpp"
#include "tools/tune/options.hpp"

namespace hymn {

/// Where collectives are measured; on GPUs, on a stream.
struct TuneGround {
  ProcessGroup group;              ///< whose candidates compete
  std::shared_ptr<GpuDevice> gpu;  ///< of this rank, in whose memory the buffers are; null: in host
                                   ///< memory

  bool is_on_gpu() const { return gpu != nullptr; }
};

/// In host memory, where the group of all ranks has all candidates.
TuneGround ground_on_host(World& world);
/// In the memory of GPUs, where some paths must be named to be candidates. Collective. Throws
/// UnsupportedError, the same on all ranks, where one of them has no GPU.
TuneGround ground_on_gpus(World& world);

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
  TuneRunner(World& world, const TuneGround& ground, const BenchCase& bench_case,
             const TuneOptions& options);

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
  BenchCall call_of(std::size_t count) const;
  /// As it is explained.
  Request request_of(const BenchCall& call) const;
  /// Mean time of an iteration, in microseconds.
  double time_block(const BenchCall& call, ProcessGroup& group, std::size_t iterations,
                    std::size_t check);
  BenchTally& tally() { return device_ ? static_cast<BenchTally&>(*device_) : *host_; }
  std::vector<Contender*> contenders_for(const BenchCall& call);
  void measure(const BenchCall& call, const std::vector<Contender*>& contenders);
  TuneChange change_at(std::size_t bytes, const BenchCall& call,
                       const std::vector<Contender*>& contenders) const;

  World& world_;
  const TuneGround& ground_;
  const BenchCase& case_;
  const TuneOptions& options_;
  BenchOptions sizes_;
  std::optional<BenchTimer> host_;  // one of the two
  std::optional<DeviceTimer> device_;
  std::vector<std::unique_ptr<Contender>> contenders_;
};

}  // namespace hymn
