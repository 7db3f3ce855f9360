// One rank's part in the training.
#pragma once

#include <hymn/hymn.hpp>
#include <hymn/torch.hpp>
#include <optional>
#include <vector>

#include "examples/torch_digits/net.hpp"
#include "examples/torch_digits/plan.hpp"

namespace digits {

/// The same on all ranks: random numbers begin with the seed.
Net make_net(const Pictures& pictures, std::size_t classes, const Settings& settings);

class Trainer {
 public:
  Trainer(hymn::World& world, const uneven::Split& data, const Settings& settings);

  /// To the last epoch, with the ranks that are left.
  void train();

  Net& net() { return net_; }
  hymn::ProcessGroup& group() { return group_; }
  const std::vector<Stretch>& stretches() const { return stretches_; }
  /// Whether all ranks have the same bits.
  bool is_same_on_all_ranks();

 private:
  void wrap();
  void train_epochs();
  void run_batches(std::size_t batches);
  void step(const Batch& batch);
  void report_epoch();
  void regroup();
  void catch_up();
  template <class Do>
  bool unless_rank_lost(Do make);

  const Settings settings_;
  const int world_rank_;
  hymn::ProcessGroup group_;
  Pictures training_;
  Pictures test_;
  Net net_;
  torch::optim::SGD optimizer_;
  at::Tensor loss_;  ///< of this rank in this epoch: the sum, and over how many samples
  std::optional<uneven::Deal> deal_;
  std::optional<hymn::torch::DistributedDataParallel<Net>> ddp_;
  Position at_{};
  std::int64_t steps_ = 0;  ///< made so far
  std::vector<Stretch> stretches_;
};

}  // namespace digits
