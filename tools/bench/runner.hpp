// Carries out the measurements of `hymn bench` on one rank.
//
// With --vs the other side's blocks of iterations alternate with hymn's, so that whatever else the
// machine does falls on both.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hymn/world.hpp"
#include "tools/bench/device_timer.hpp"
#include "tools/bench/options.hpp"
#include "tools/bench/report.hpp"
#include "tools/bench/rival_job.hpp"
#include "tools/bench/timer.hpp"
#include "tools/bench/vs_nccl.hpp"

namespace hymn {

class BenchRunner {
 public:
  /// `reports` is empty but on rank 0. Throws BadArguments for what only the world shows to be
  /// wrong.
  BenchRunner(World& world, const BenchOptions& options, BenchReports reports);

  /// Runs all sizes. Returns the number of wrong values over all ranks, sizes and both sides, on
  /// every rank.
  std::uint64_t run();

 private:
  /// Times one block.
  using Block = std::function<BlockTime(std::size_t iterations, std::size_t check)>;
  struct Sides {
    Block hymn;
    Block rival;  ///< empty: there is none, or it has no equivalent
  };
  /// Of the blocks of one side.
  struct Means {
    std::vector<double> time;
    std::vector<double> enqueue;
    void add(const BlockTime& block);
  };
  void make_timer();
  void check_root_and_ranks() const;
  void check_support() const;
  BenchCall call_of(const BenchShape& shape) const;
  Explanation explain(const BenchCall& call) const;
  BenchTally& tally() { return device_ ? static_cast<BenchTally&>(*device_) : *host_; }
  const BenchTally& tally() const {
    return device_ ? static_cast<const BenchTally&>(*device_) : *host_;
  }
  Sides on_host(const BenchShape& shape, const BenchCall& call);
  Sides on_gpu(const BenchShape& shape, const BenchCall& call);
  Means measure_blocks(const Sides& sides, const BenchRow& row, Means& rival);
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
  // One of the two.
  std::optional<BenchTimer> host_;
  std::optional<DeviceTimer> device_;
  double copy_rate_ = 0;  ///< of DeviceTimer, on rank 0; 0: not known
  std::optional<PlainNccl> nccl_;
  std::optional<RivalJob> mpi_;
  std::size_t measured_ = 0;
};

}  // namespace hymn
