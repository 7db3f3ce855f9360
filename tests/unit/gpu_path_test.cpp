// Asking for NCCL and nothing else, where it cannot be had.
#include "runtime/mechanisms/gpu_path.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "hymn/hymn.hpp"

namespace hymn::test {
namespace {

using ::testing::HasSubstr;

std::string config_error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

GroupLayout layout_of(int ranks, int without_gpu) {
  GroupLayout layout;
  layout.size = ranks;
  layout.hosts.emplace_back().ranks_without_gpu = without_gpu;
  return layout;
}

std::string config_error_of(std::string_view path, int ranks, int without_gpu) {
  return config_error_of([&] {
    require_gpu_path(PathPolicy::parse(path, "HYMN_PATH"), layout_of(ranks, without_gpu));
  });
}

TEST(GpuPath, IsRefusedWithoutGpus) {
  EXPECT_THAT(config_error_of("nccl", 3, 3), HasSubstr("only supported with GPUs, no GPUs found"));
  EXPECT_THAT(config_error_of("nccl", 3, 2), HasSubstr("2 of 3 ranks have none"));
  EXPECT_THAT(config_error_of("nccl", 3, 3), HasSubstr("'nccl'"));
  EXPECT_THAT(config_error_of("nccl", 3, 3), HasSubstr("remedy: allow another path"));
  EXPECT_THAT(config_error_of("^threads,shm,hierarchical,mpi,mpi_p2p,tcp,exchange,staged", 1, 1),
              HasSubstr("no GPUs found"));
}

TEST(GpuPath, IsNotMissedWhereAnotherPathIsLeft) {
  for (const char* path : {"", "nccl,mpi", "mpi", "^nccl", "^mpi"})
    EXPECT_EQ(config_error_of(path, 2, 2), "nothing was thrown") << path;
  EXPECT_EQ(config_error_of("nccl", 3, 0), "nothing was thrown") << "all ranks have one";
}

// A machine without GPUs, whatever this one has.
TEST(GpuPath, test_init_no_gpus) {
  setenv("HYMN_GPU", "none", 1);
  const auto ask = [](const WorldOptions& options, const auto& rank_main) {
    return config_error_of([&] {
      try {
        run_ranks(2, rank_main, options);
      } catch (const RanksFailed& failed) {
        // Each finds it by itself, unless the other is quicker and lets it go.
        EXPECT_THAT(failed.what(), HasSubstr("rank(s) failed: rank "));
        failed.rethrow_first();
      }
    });
  };
  EXPECT_THAT(ask({.path = "nccl"}, [](World&) { ADD_FAILURE() << "there is a world"; }),
              HasSubstr("only supported with GPUs, no GPUs found"));
  EXPECT_THAT(ask({}, [](World& world) { world.new_group({0, 1}, {.path = "nccl"}); }),
              HasSubstr("no GPUs found"));
  run_ranks(2, [](World& world) {
    EXPECT_THROW(world.new_group({0, 1}, {.path = "nccl"}), ConfigError);
    std::int32_t sum = 1;
    world.group().all_reduce(view_of(sum));
    EXPECT_EQ(sum, 2) << "the world is out of step";
  });
  unsetenv("HYMN_GPU");
}

}  // namespace
}  // namespace hymn::test
