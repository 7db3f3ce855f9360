// A random model with random options, and iterations of it, against what one process computes of
// all ranks.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "hymn/gradient_hooks.hpp"
#include "tests/training/toy_step.hpp"

namespace hymn::test {

/// All ranks draw the same, what others do included.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  int up_to(int most) { return std::uniform_int_distribution<int>(0, most)(engine_); }
  bool coin() { return up_to(1) == 1; }
  std::vector<std::size_t> shuffled(std::vector<std::size_t> values) {
    std::ranges::shuffle(values, engine_);
    return values;
  }

 private:
  std::mt19937_64 engine_;
};

/// What each rank has gathered, and what was reduced of it last.
class Oracle {
 public:
  Oracle(int ranks, std::size_t parameters)
      : has_(static_cast<std::size_t>(ranks), std::vector<char>(parameters)),
        values_(static_cast<std::size_t>(ranks), std::vector<double>(parameters)) {}

  void add(std::size_t rank, std::size_t parameter, double value) {
    values_[rank][parameter] += value;
    has_[rank][parameter] = 1;
  }
  /// Of what all have used; others keep theirs.
  void reduce() {
    const std::size_t ranks = values_.size();
    for (std::size_t p = 0; p < values_[0].size(); ++p) {
      double sum = 0;
      bool used = false;
      for (std::size_t r = 0; r < ranks; ++r) {
        if (has_[r][p] != 0) sum += values_[r][p], used = true;
      }
      for (std::size_t r = 0; used && r < ranks; ++r)
        values_[r][p] = sum / static_cast<double>(ranks);
      for (std::size_t r = 0; r < ranks; ++r) has_[r][p] = 0;
    }
  }
  /// As an optimizer does before the next iteration, where nothing waits to be reduced.
  void zero() {
    for (auto& mine : values_) std::ranges::fill(mine, 0.0);
  }
  double value(std::size_t rank, std::size_t parameter) const { return values_[rank][parameter]; }

 private:
  std::vector<std::vector<char>> has_;
  std::vector<std::vector<double>> values_;
};

/// Where the model is.
struct RandomPlace {
  /// Of that parameter; of the host unless given.
  std::function<ToyModel::Allocate(std::size_t parameter)> memory{};
  std::function<void*(int gpu)> stream{};
  std::function<void()> synchronize = [] {};  ///< until the host may look, and write
};

inline void play_random(World& world, std::uint64_t seed, const RandomPlace& place = {}) {
  SCOPED_TRACE("seed " + std::to_string(seed) + " (TEST_SEED)");
  Dice dice(seed);
  ToyModel model;
  const std::size_t parameters = static_cast<std::size_t>(dice.up_to(11)) + 1;
  for (std::size_t i = 0; i < parameters; ++i) {
    if (place.memory) model.in(place.memory(i));
    model.add("p" + std::to_string(i), {dice.up_to(40), 1 + dice.up_to(4)},
              dice.coin() ? DataType::float32 : DataType::float64);
  }
  training::ReducerOptions options{.first_bucket_bytes = static_cast<std::size_t>(dice.up_to(600)),
                                   .bucket_bytes = static_cast<std::size_t>(dice.up_to(2000)),
                                   .gradient_as_bucket_view = dice.coin(),
                                   .find_unused_parameters = dice.coin(),
                                   .stream = place.stream};
  if (dice.coin()) options.hook = training::all_reduce_hook();
  training::GradientReducer reducer(world.group(), model.parameters(), options);
  ToyStep step(world, model, reducer);
  Oracle oracle(world.size(), parameters);
  const auto me = static_cast<std::size_t>(world.rank());
  std::vector<std::size_t> all(parameters);
  std::iota(all.begin(), all.end(), std::size_t{0});
  bool is_clean = true;
  for (int iteration = 0; iteration < 6; ++iteration) {
    place.synchronize();
    // In a bucket, what nobody uses is nothing; elsewhere it is left: both agree on zeros.
    if (is_clean) {
      oracle.zero();
      for (std::size_t i = 0; i < parameters; ++i) ToyModel::fill(reducer.gradient(i), 0);
    }
    const bool syncs = dice.up_to(2) != 0;
    std::optional<training::GradientReducer::NoSync> held;
    if (!syncs) held.emplace(reducer);
    std::vector<std::size_t> mine;
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(world.size()); ++rank) {
      std::vector<std::size_t> order = dice.shuffled(all);
      if (options.find_unused_parameters)
        order.resize(static_cast<std::size_t>(dice.up_to(static_cast<int>(parameters))));
      for (const std::size_t p : order)
        oracle.add(rank, p, toy_gradient(static_cast<int>(rank), p, iteration));
      if (rank == me) mine = order;
    }
    if (options.find_unused_parameters)
      reducer.prepare(mine);
    else
      reducer.prepare();
    place.synchronize();
    for (const std::size_t p : mine) {
      model.accumulate(reducer.gradient(p), toy_gradient(world.rank(), p, iteration));
      reducer.ready(p);
    }
    reducer.finish();
    place.synchronize();
    if (syncs) oracle.reduce();
    for (std::size_t p = 0; p < parameters; ++p) step.expect(p, oracle.value(me, p), 1e-6);
    is_clean = syncs;
  }
}

}  // namespace hymn::test
