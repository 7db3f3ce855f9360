// What tests of groups on several GPUs of each rank begin with.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tests/unit/toy_gpu_test.hpp"

namespace hymn::test {

/// Three ranks, whose own GPUs are 0, 1 and 2, of six that all of them see. The doubles notice what
/// is put onto the wrong one.
class GpuSeveral : public testing::Test {
 protected:
  static constexpr int team = 3;
  ~GpuSeveral() override { EXPECT_THAT(gpus.violations(), IsEmpty()); }

  void run(const std::function<void(World&)>& body, const Config& config = {}) const {
    gpus.run_with_others(team, body, config);
  }
  static int second_of(const World& world) { return team + world.rank(); }
  static ProcessGroup on(World& world, std::optional<int> gpu, GroupOptions options = {}) {
    options.gpu = gpu;
    return world.new_group({0, 1, 2}, options);
  }
  static ProcessGroup on_second(World& world, const GroupOptions& options = {}) {
    return on(world, second_of(world), options);
  }
  /// That the group's sum of what is on that GPU is right.
  void expect_sum(ProcessGroup& group, int rank, int gpu) {
    Buffer sum(gpus, gpu, {rank + 1, 10 * (rank + 1)});
    group.all_reduce(sum.view());
    EXPECT_EQ(sum.values(), (Ints{6, 60}));
  }
  static std::string reason_of(const Explanation& told, const std::string& path) {
    for (const Candidate& candidate : told.candidates)
      if (candidate.path == path) return candidate.reason;
    return "no candidate";
  }
  /// Rank i has been busy on no GPU but those from the third on.
  void expect_own_are_unused() const {
    for (int rank = 0; rank < team; ++rank) EXPECT_THAT(gpus.calls(rank), IsEmpty());
  }

  ToyGpus gpus{2 * team};
};

}  // namespace hymn::test
