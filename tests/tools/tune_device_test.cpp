// `hymn tune` in the memory of GPUs, over doubles of the driver and of NCCL, and what groups make
// of its table. The times are those of the doubles and mean nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "collectives/cuda/kernel_image.hpp"
#include "hymn/error.hpp"
#include "runtime/world/tuning_library.hpp"
#include "tests/support/machines.hpp"
#include "tests/unit/toy_gpus.hpp"
#include "tools/tune/runner.hpp"

namespace hymn::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Names = std::set<std::string>;

class TuneDevice : public testing::Test {
 protected:
  explicit TuneDevice(std::vector<int> gpus_of_hosts = {2}) : hosts(std::move(gpus_of_hosts)) {}
  ~TuneDevice() override {
    EXPECT_THAT(gpus.violations(), IsEmpty());
    ::unlink(file.c_str());
  }

  static TuneOptions options() {
    TuneOptions options;
    options.min_bytes = 64;
    options.max_bytes = 4096;
    options.factor = 64;
    options.blocks = 1;
    options.block_us = 1;
    return options;
  }
  void run(const std::function<void(World&)>& body, const Config& config = {}) const {
    gpus.run_on_hosts(hosts, body, config);
  }
  /// Rows of these collectives.
  std::vector<TuningRow> measure(const std::vector<std::string_view>& collectives,
                                 const Config& config = {}) {
    std::vector<TuningRow> rows;
    run(
        [&](World& world) {
          const TuneOptions chosen = options();
          const TuneGround ground = ground_on_gpus(world);
          for (const std::string_view name : collectives) {
            const TuneResult found =
                TuneRunner(world, ground, *find_bench_case(name), chosen).run([](std::size_t) {});
            EXPECT_EQ(found.changes.size(), find_bench_case(name)->has_data() ? 2u : 1u);
            if (world.rank() == 0) rows.insert(rows.end(), found.rows.begin(), found.rows.end());
          }
        },
        config);
    return rows;
  }
  /// From now on worlds with this configuration use these.
  Config use(std::vector<TuningRow> rows) {
    TuningTable table;
    table.machine = fingerprint(make_box({.cores = 8, .gpus = hosts.front()}));
    table.measured = "2026-01-02";
    table.library = tuning_library();
    table.rows = std::move(rows);
    write_tuning_file(table, file);
    Config config;
    config.tuning = file;
    return config;
  }

  const std::string file =
      ::testing::TempDir() + "hymn-tune-device-" + std::to_string(::getpid()) + ".json";
  const std::vector<int> hosts;
  ToyGpus gpus{std::accumulate(hosts.begin(), hosts.end(), 0)};
};

class TuneDeviceOnHosts : public TuneDevice {
 protected:
  TuneDeviceOnHosts() : TuneDevice({2, 2}) {}
};

bool has_kernels() { return !cuda::kernel_image().empty(); }

Names names_of(const std::vector<TuningRow>& rows) {
  Names names;
  for (const TuningRow& row : rows) names.insert(row.path + " " + row.algorithm);
  return names;
}

TEST_F(TuneDevice, MeasuresAllThatCanRun) {
  const std::vector<TuningRow> rows = measure({"all_reduce", "broadcast"});
  Names expected = {"nccl all_reduce_nccl", "staged all_reduce_staged", "nccl broadcast_nccl",
                    "staged broadcast_staged"};
  if (has_kernels())
    expected.merge(Names{"cuda_p2p all_reduce_one_shot", "cuda_p2p all_reduce_two_shot",
                         "cuda_p2p broadcast_windows"});
  EXPECT_EQ(names_of(rows), expected);
  for (const TuningRow& row : rows) {
    EXPECT_EQ(row.memory, MemoryKind::device);
    EXPECT_EQ(row.ranks, 2);
    EXPECT_EQ(row.hosts, 1);
    ASSERT_EQ(row.points.size(), 2u);
    EXPECT_EQ(row.points[0].bytes, 64u);
    EXPECT_EQ(row.points[1].bytes, 4096u);
  }
}

TEST_F(TuneDeviceOnHosts, WhatIsMeasuredMayCarry) {
  if (!has_kernels()) GTEST_SKIP() << "hymn was built without nvcc";
  std::vector<TuningRow> rows = measure({"all_reduce"});
  EXPECT_EQ(names_of(rows), (Names{"nccl all_reduce_nccl", "staged all_reduce_staged",
                                   "cuda_p2p all_reduce_hierarchical_nccl",
                                   "cuda_p2p all_reduce_hierarchical_staged"}));
  for (TuningRow& row : rows) {
    EXPECT_EQ(row.hosts, 2);
    for (TuningRow::Point& point : row.points)
      point.seconds = row.algorithm == "all_reduce_hierarchical_staged" ? 1e-6 : 1e-3;
  }
  run(
      [this](World& world) {
        ToyBuffer<float> buffer(gpus, world.rank(), std::vector<float>(100, 2.0F));
        world.group().all_reduce(buffer.view());
        EXPECT_EQ(buffer.values(), std::vector<float>(100, 8.0F));
        ASSERT_EQ(world.group().uses().size(), 1u);
        EXPECT_EQ(world.group().uses()[0].algorithm, "all_reduce_hierarchical_staged");
        world.group().barrier();
      },
      use(std::move(rows)));
}

TEST_F(TuneDevice, MeasuresBarriersOnStreams) {
  std::vector<TuningRow> rows = measure({"barrier"});
  Names expected = {"nccl barrier_nccl", "staged barrier_staged"};
  if (has_kernels()) expected.merge(Names{"cuda_p2p barrier_windows"});
  EXPECT_EQ(names_of(rows), expected);
  for (TuningRow& row : rows) {
    EXPECT_EQ(row.memory, MemoryKind::device);
    ASSERT_EQ(row.points.size(), 1u);
    EXPECT_EQ(row.points[0].bytes, 0u);
    row.points[0].seconds = row.path == "nccl" ? 3e-6 : row.path == "staged" ? 1e-6 : 2e-6;
  }
  run(
      [this](World& world) {
        Request barrier = Request::barrier();
        barrier.domain = {OrderingDomain::Kind::stream, gpus.make_stream(world.rank())};
        EXPECT_EQ(world.group().explain(barrier).algorithm,
                  has_kernels() ? "barrier_windows" : "barrier_nccl")
            << "what is staged holds up the host";
      },
      use(std::move(rows)));
}

TEST_F(TuneDevice, LeavesOutWhatThePathSettingForbids) {
  Config config;
  config.path = PathPolicy::parse("^cuda_p2p,staged", "HYMN_PATH");
  EXPECT_EQ(names_of(measure({"all_reduce"}, config)), (Names{"nccl all_reduce_nccl"}));
}

TEST_F(TuneDevice, NeedsAGpuOnEveryRank) {
  gpus.run_with_others(3, [](World& world) {
    EXPECT_THAT(thrown_by<UnsupportedError>([&] { ground_on_gpus(world); }),
                HasSubstr("rank(s) 2 of 3 have none"));
  });
}

TEST_F(TuneDevice, WhatIsMeasuredMayCarry) {
  if (!has_kernels()) GTEST_SKIP() << "hymn was built without nvcc";
  std::vector<TuningRow> rows = measure({"all_reduce"});
  for (TuningRow& row : rows)
    for (TuningRow::Point& point : row.points)
      point.seconds = row.algorithm == "all_reduce_two_shot" ? 1e-6 : 1e-3;
  run(
      [this](World& world) {
        ToyBuffer<float> buffer(gpus, world.rank(), std::vector<float>(100, 2.0F));
        const Explanation told =
            world.group().explain(Request::all_reduce(buffer.view(), buffer.view()));
        EXPECT_EQ(told.algorithm, "all_reduce_two_shot");
        for (const Candidate& each : told.candidates)
          EXPECT_EQ(each.cost_source, each.can_run ? "tuned on 2026-01-02" : "") << each.algorithm;
        world.group().all_reduce(buffer.view());
        EXPECT_EQ(buffer.values(), std::vector<float>(100, 4.0F));
        ASSERT_EQ(world.group().uses().size(), 1u);
        EXPECT_EQ(world.group().uses()[0].path, "cuda_p2p");
        // Another type was not measured.
        ToyBuffer<std::int32_t> others(gpus, world.rank(), std::vector<std::int32_t>(100));
        EXPECT_EQ(world.group().explain(Request::all_reduce(others.view(), others.view())).path,
                  "nccl");
      },
      use(std::move(rows)));
}

TEST_F(TuneDevice, NothingIsMadeForGroupsOfOtherSizes) {
  std::vector<TuningRow> rows = measure({"all_reduce"});
  for (TuningRow& row : rows) row.ranks = 3;
  const Config config = use(std::move(rows));
  const int before = gpus.open_allocations();
  run(
      [this, before](World& world) {
        EXPECT_EQ(gpus.open_allocations(), before);
        ToyBuffer<float> buffer(gpus, world.rank(), std::vector<float>(100));
        EXPECT_EQ(world.group().explain(Request::all_reduce(buffer.view(), buffer.view())).path,
                  "nccl");
        world.group().barrier();
      },
      config);
}

}  // namespace
}  // namespace hymn::test
