// One trainer's part in the learning.
#pragma once

#include <cstdint>
#include <hymn/hymn.hpp>
#include <hymn/objects.hpp>
#include <hymn/rpc.hpp>
#include <span>
#include <string>
#include <vector>

#include "examples/parameter_worker/embedding.hpp"
#include "examples/parameter_worker/settings.hpp"
#include "examples/parameter_worker/skip_gram.hpp"
#include "examples/parameter_worker/text.hpp"

namespace parameter_worker {

/// How far the trainers have come: the same on all of them.
struct Progress {
  int epoch = 0;
  std::size_t places = 0;  ///< learnt in this epoch
  std::int64_t steps = 0;
  double loss = 0;  ///< of this epoch: the sum, and over how many pairs
  double pairs = 0;
};

class Trainer {
 public:
  Trainer(const hymn::ProcessGroup& trainers, hymn::rpc::Agent& agent, const Text& text,
          const Settings& settings);

  /// To the last epoch, with the trainers that are left.
  void train();
  /// The mean of a fixed sample of the text, of which each trainer takes a part.
  double loss();
  /// For each of these words those that are most like it. Words that the text does not have are
  /// left out.
  std::vector<std::string> nearest(const std::vector<std::string>& words, std::size_t how_many);

  const hymn::ProcessGroup& group() const { return group_; }
  const Progress& progress() const { return at_; }
  Embedding& embedding() { return embedding_; }

 private:
  template <class Do>
  void with_those_left(Do make);
  template <class Do>
  bool unless_trainer_lost(Do make);
  void train_epochs();
  void step(std::span<const std::uint32_t> places);
  void report_epoch() const;
  double mean_loss();
  void regroup();

  hymn::ProcessGroup group_;
  const Text& text_;
  const Settings& settings_;
  Embedding embedding_;
  SkipGram model_;
  Progress at_{};
};

}  // namespace parameter_worker
