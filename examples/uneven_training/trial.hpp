// One way to train, tried from the first epoch to the last, and what came out.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "examples/uneven_training/curves.hpp"
#include "examples/uneven_training/worker.hpp"

namespace uneven {

/// What all ranks find out together.
struct Outcome {
  bool same_bits = false;          ///< of the model, on all ranks
  bool used_all_alike = false;     ///< each sample once in each epoch
  std::size_t used = 0;            ///< samples in an epoch, the mean
  double ms = 0;                   ///< of an epoch, the mean; of the slowest rank
  double waited_ms = 0;            ///< of that in all_reduce, the mean over ranks and epochs
  double asked_ms = 0;             ///< of that asking for work, the same
  std::size_t least_computed = 0;  ///< batches or chunks in an epoch, of the rank with least
  std::size_t most_computed = 0;
};

class Trial {
 public:
  Trial(hymn::World& world, Way way, const Split& data, const Deal& deal, const Settings& settings,
        hymn::Reproducibility level, std::shared_ptr<hymn::Store> store);

  Way way() const { return way_; }
  Model& model() { return worker_.model(); }
  const Curve& curve() const { return curve_; }
  /// All ranks call these.
  void run_epoch(int epoch);
  Outcome outcome(int epochs);

 private:
  hymn::ProcessGroup group_;
  Way way_;
  const Split& data_;
  Worker worker_;
  Curve curve_;
  double milliseconds_ = 0;
};

/// One epoch in which nobody knows that the ranks have not as many batches, with a limit of time
/// for each call. What hymn says of it, the same on all ranks; empty where nothing is uneven.
std::string verdict_without_join(hymn::World& world, const Split& data, const Deal& deal,
                                 const Settings& settings, hymn::Duration limit);

/// A store that all ranks of this host use, in the memory of rank 0.
std::shared_ptr<hymn::Store> common_store(hymn::World& world);

}  // namespace uneven
