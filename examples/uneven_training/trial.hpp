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
  bool same_bits = false;       ///< of the model, on all ranks
  bool used_all_alike = false;  ///< each sample once in each epoch
  std::size_t used = 0;         ///< samples in an epoch, the mean
  // Milliseconds of an epoch, medians:
  double ms = 0;                   ///< of the slowest rank
  double waited_ms = 0;            ///< in all_reduce, the mean of the ranks
  double asked_ms = 0;             ///< asking for work, the mean of the ranks
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
  // Milliseconds of each epoch on this rank.
  std::vector<double> took_;
  std::vector<double> waited_;
  std::vector<double> asked_;
};

/// One epoch in which nobody knows that the ranks have not as many batches, with a limit of time
/// for each call. What hymn says of it, the same on all ranks; empty where nothing is uneven.
std::string verdict_without_join(hymn::World& world, const Split& data, const Deal& deal,
                                 const Settings& settings, hymn::Duration limit);

/// A store that all ranks of this host use, in the memory of rank 0.
std::shared_ptr<hymn::Store> common_store(hymn::World& world);

}  // namespace uneven
