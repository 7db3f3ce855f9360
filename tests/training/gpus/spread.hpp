// Ranks of several toy GPUs each, and models that lie on them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/training/toy_step.hpp"
#include "tests/unit/toy_gpus.hpp"

namespace hymn::test {

/// `ranks` ranks, each with so many GPUs, of which the first is its own.
class Spread {
 public:
  Spread(int ranks, int each) : each_(each), ranks_(ranks), gpus(ranks * each) {
    for (int gpu = 0; gpu < ranks * each; ++gpu) streams_.push_back(gpus.make_stream(gpu));
  }
  ~Spread() { EXPECT_THAT(gpus.violations(), testing::IsEmpty()); }
  Spread(const Spread&) = delete;
  Spread& operator=(const Spread&) = delete;

  void run(const std::function<void(World&)>& body, const WorldOptions& options = {},
           const Config& config = {}) const {
    std::vector<PretendedRank> all;
    for (int rank = 0; rank < ranks_; ++rank) {
      PretendedRank& one = all.emplace_back();
      one = {.host = gpus.machine()->name,
             .machine = gpus.machine(),
             .cpus = gpus.machine()->cpus,
             .config = config};
      one.config.gpu = std::to_string(rank * each_);
      one.gpus = &gpus.pretended();
    }
    run_pretended_ranks(all, body, options);
  }

  /// The k-th of that rank's.
  int gpu(const World& world, int k) const { return world.rank() * each_ + k; }
  int each() const { return each_; }
  /// Where a model's memory is.
  ToyModel::Allocate memory_of(int gpu) {
    return [this, gpu](std::size_t bytes) {
      auto* const made = static_cast<std::byte*>(gpus.allocate(gpu, bytes));
      std::fill_n(made, bytes, std::byte{0});
      return std::shared_ptr<std::byte>(made, [this, gpu](std::byte* memory) {
        // A real driver would: what was given up may still write there.
        EXPECT_TRUE(gpus.synchronize(stream(gpu)));
        EXPECT_TRUE(gpus.synchronize(gpus.default_stream(gpu)));
        gpus.free(memory);
      });
    };
  }
  /// The framework's.
  void* stream(int gpu) const { return streams_.at(static_cast<std::size_t>(gpu)); }
  std::function<void*(int)> streams() const {
    return [this](int gpu) { return stream(gpu); };
  }
  /// All that the framework has enqueued on that rank's GPUs.
  void synchronize(const World& world) {
    for (int k = 0; k < each_; ++k) {
      EXPECT_TRUE(gpus.synchronize(stream(gpu(world, k))));
      EXPECT_TRUE(gpus.synchronize(gpus.default_stream(gpu(world, k))));
    }
  }

 private:
  int each_;
  int ranks_;

 public:
  ToyGpus gpus;

 private:
  std::vector<void*> streams_;
};

}  // namespace hymn::test
