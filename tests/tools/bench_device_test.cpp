// `hymn bench --memory device`: how it enqueues, times and verifies, over doubles of the driver and
// of NCCL. The times are those of the doubles and mean nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/unit/toy_gpus.hpp"
#include "tools/bench/runner.hpp"

namespace hymn::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Keeps what rank 0 would print.
class KeptRows final : public BenchReport {
 public:
  explicit KeptRows(std::vector<BenchRow>& rows) : rows_(rows) {}
  void add(std::span<const BenchRow> rows) override {
    rows_.insert(rows_.end(), rows.begin(), rows.end());
  }
  void end(const WrongValues&) override {}

 private:
  std::vector<BenchRow>& rows_;
};

class BenchDevice : public testing::TestWithParam<int> {
 protected:
  ~BenchDevice() override { EXPECT_THAT(gpus.violations(), IsEmpty()); }

  static BenchArguments arguments_for(const std::string& collective) {
    BenchArguments arguments;
    arguments.collective = collective;
    arguments.memory = "device";
    arguments.versus = "nccl";
    arguments.max_bytes = 4096;
    arguments.factor = 32;
    arguments.iterations = 70;
    arguments.warmup = 1;
    arguments.timeout = "60";
    return arguments;
  }
  std::vector<BenchRow> measure(const BenchArguments& arguments) {
    const BenchOptions options = checked_options(arguments);
    std::vector<BenchRow> rows;
    gpus.run([&](World& world) {
      BenchReports reports;
      if (world.rank() == 0) reports.push_back(std::make_unique<KeptRows>(rows));
      EXPECT_EQ(BenchRunner(world, options, std::move(reports)).run(), 0u);
    });
    return rows;
  }

  ToyGpus gpus{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Ranks, BenchDevice, testing::Values(1, 3));

TEST_P(BenchDevice, EveryCollectiveIsRight) {
  for (const BenchCase& bench_case : bench_cases()) {
    SCOPED_TRACE(bench_case.name);
    if (bench_case.type == OpType::batch && GetParam() == 1) continue;
    if (is_prefix(bench_case.type)) continue;  // not in the memory of GPUs
    BenchArguments arguments = arguments_for(std::string(bench_case.name));
    // NCCL has no in-place all_to_all and reduce_scatter.
    arguments.out_of_place = bench_case.out_of_place;
    const std::vector<BenchRow> rows = measure(arguments);
    ASSERT_FALSE(rows.empty());
    for (const BenchRow& row : rows) {
      EXPECT_EQ(row.wrong.hymn, std::uint64_t{0});
      EXPECT_EQ(row.path, "nccl");
      ASSERT_TRUE(row.enqueue_time);
      EXPECT_GE(row.enqueue_time->median, 0);
      EXPECT_EQ(row.rival, "nccl");
      const bool has_rival = bench_case.type != OpType::barrier;
      EXPECT_EQ(row.rival_time.has_value(), has_rival);
      EXPECT_EQ(row.rival_enqueue_time.has_value(), has_rival);
    }
  }
  EXPECT_TRUE(eventually([this] { return gpus.open_allocations() == 0; }));
}

TEST_P(BenchDevice, InPlaceToo) {
  BenchArguments arguments = arguments_for("all_reduce");
  arguments.in_place = true;
  for (const BenchRow& row : measure(arguments)) EXPECT_TRUE(row.in_place);
}

TEST_P(BenchDevice, TheRivalDoesTheSame) {
  for (const BenchCase& bench_case : bench_cases()) {
    if (bench_case.type == OpType::barrier || is_prefix(bench_case.type)) continue;
    for (const bool in_place : {false, true}) {
      if (!(in_place ? bench_case.in_place : bench_case.out_of_place)) continue;
      // A block would be sent while another one comes to its place.
      if (in_place && bench_case.type == OpType::all_to_all) continue;
      SCOPED_TRACE(std::string(bench_case.name) + (in_place ? " in place" : ""));
      gpus.run([&](World& world) {
        const Timeout limit(std::chrono::minutes(1));
        constexpr std::size_t count = 100;
        const BenchShape shape{world.rank(), world.size(), world.size() - 1, count, in_place};
        const std::size_t bytes = static_cast<std::size_t>(world.size()) * count * sizeof(float);
        DeviceTimer timer(world, require_gpus(world), bench_case, DataType::float32, ReduceOp::sum,
                          bytes, limit);
        const BenchCall call = timer.call(shape);
        PlainNccl nccl(world, limit);
        timer.time_block(
            call, 5, 5,
            {.enqueue = nccl.call_for(bench_case, shape, call, ReduceOp::sum, timer.stream()),
             .look = [&] { nccl.check(); }});
        EXPECT_EQ(timer.take_wrong(), 0u);
      });
    }
  }
}

TEST_P(BenchDevice, WhatNcclHasNotIsStagedAndHasNoRival) {
  BenchArguments arguments = arguments_for("all_reduce");
  arguments.dtype = "int32";
  arguments.op = "bor";
  for (const BenchRow& row : measure(arguments)) {
    EXPECT_EQ(row.path, "staged");
    EXPECT_FALSE(row.rival_time);
  }
}

TEST_P(BenchDevice, FindsWrongResults) {
  const BenchCase& all_reduce = *find_bench_case("all_reduce");
  gpus.run([&](World& world) {
    DeviceTimer timer(world, require_gpus(world), all_reduce, DataType::float32, ReduceOp::sum, 400,
                      Timeout(std::chrono::minutes(1)));
    const BenchCall call = timer.call({world.rank(), world.size(), 0, 100, false});
    const auto nothing = [] {};
    // An operation that does nothing leaves the output as it was.
    timer.time_block(call, 3, 1, {.enqueue = nothing, .look = nothing});
    EXPECT_GT(timer.take_wrong(), static_cast<std::uint64_t>(world.size()) * 90);
    EXPECT_EQ(timer.take_wrong(), 0u);
  });
}

TEST_P(BenchDevice, AnOperationThatIsStuckIsATimeout) {
  const BenchCase& barrier = *find_bench_case("barrier");
  gpus.run([&](World& world) {
    DeviceTimer timer(world, require_gpus(world), barrier, DataType::float32, ReduceOp::sum, 0,
                      Timeout(std::chrono::milliseconds(50)));
    const BenchCall call = timer.call({world.rank(), world.size(), 0, 0, false});
    PlainNccl nccl(world, Timeout(std::chrono::minutes(1)));
    const BenchCase& all_reduce = *find_bench_case("all_reduce");
    DeviceMemory memory(require_gpus(world), 8);
    const BenchCall reduction(all_reduce, {world.rank(), world.size(), 0, 1, true},
                              DataType::float32, ReduceOp::sum, memory.data(), memory.data(),
                              MemoryKind::device);
    const auto enqueue = nccl.call_for(all_reduce, {world.rank(), world.size(), 0, 1, true},
                                       reduction, ReduceOp::sum, timer.stream());
    world.group().barrier();
    if (world.rank() == 0) gpus.hold("collective");
    world.group().barrier();
    EXPECT_THAT(thrown_by<TimeoutError>([&] {
                  timer.time_block(call, 1, 0, {.enqueue = enqueue, .look = [&] { nccl.check(); }});
                }),
                HasSubstr("1 operations on the stream have not ended in time"));
    world.group().barrier();
    if (world.rank() == 0) gpus.release();
    EXPECT_TRUE(gpus.synchronize(timer.stream()));
    world.group().barrier();
  });
}

TEST_P(BenchDevice, RanksWithoutAGpuAreNamed) {
  const int ranks = GetParam() + 1;
  gpus.run_with_others(ranks, [&](World& world) {
    const std::string text = thrown_by<UnsupportedError>([&] { require_gpus(world); });
    EXPECT_THAT(text, HasSubstr("rank(s) " + std::to_string(ranks - 1) + " of " +
                                std::to_string(ranks) + " have none"));
    EXPECT_THAT(text, HasSubstr("remedy: start on machines with GPUs"));
    EXPECT_EQ(world.gpu(), world.rank() < GetParam() ? world.rank() : -1);
  });
}

}  // namespace
}  // namespace hymn::test
