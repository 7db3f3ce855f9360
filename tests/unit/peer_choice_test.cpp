// When groups choose peer memory beside NCCL, over toy GPUs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "collectives/cuda/kernel_image.hpp"
#include "hymn/error.hpp"
#include "hymn/threads.hpp"
#include "tests/support/byte_units.hpp"
#include "tests/support/machines.hpp"
#include "tests/unit/toy_gpus.hpp"

namespace hymn::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PeerChoice : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda::kernel_image().empty()) GTEST_SKIP() << "hymn was built without nvcc";
  }
  ~PeerChoice() override { EXPECT_THAT(gpus.violations(), IsEmpty()); }

  static Config as_c10d(const char* path = "") {
    Config config;
    config.p2p_compat = P2pCompat::c10d;
    config.path = PathPolicy::parse(path, "HYMN_PATH");
    return config;
  }
  /// Memory of one rank. It is freed when all kernels have ended, for that waits for them.
  using Kept = std::vector<std::shared_ptr<void>>;
  /// Sums or averages so many elements, each of which is its rank, and looks at all of them.
  template <class T>
  void reduce(World& world, Kept& kept, std::size_t count, T expected,
              ReduceOp op = ReduceOp::sum) {
    const T mine(static_cast<T>(static_cast<float>(world.rank())));
    const auto buffer =
        std::make_shared<ToyBuffer<T>>(gpus, world.rank(), std::vector<T>(count, mine));
    kept.push_back(buffer);
    world.group().all_reduce(buffer->view(), op);
    EXPECT_TRUE(std::all_of(buffer->data(), buffer->data() + count,
                            [expected](T value) { return value == expected; }));
  }
  Explanation explain(World& world, std::size_t bytes, DataType dtype = DataType::bfloat16,
                      ReduceOp op = ReduceOp::sum) {
    ToyBuffer<std::int8_t> buffer(gpus, world.rank(), std::vector<std::int8_t>(bytes));
    const BufferView view(buffer.data(), bytes / size_of(dtype), dtype, MemoryKind::device);
    return world.group().explain(Request::all_reduce(view, view, op));
  }

  ToyGpus gpus{2};
};

std::uint64_t uses_of_path(const ProcessGroup& group, std::string_view path) {
  std::uint64_t sum = 0;
  for (const AlgorithmUse& use : group.uses())
    if (use.path == path) sum += use.count;
  return sum;
}

std::string reason_of(const Explanation& told, std::string_view algorithm) {
  for (const Candidate& each : told.candidates)
    if (each.path == "cuda_p2p" && each.algorithm == algorithm) return each.reason;
  return "there is no such candidate";
}

bfloat16 operator""_bf16(unsigned long long value) { return bfloat16(static_cast<float>(value)); }

TEST_F(PeerChoice, test_intra_node_comm_all_reduce) {
  gpus.run(
      [&](World& world) {
        Kept kept;
        const auto counter = [&world] { return uses_of_path(world.group(), "cuda_p2p"); };
        // Neither another type nor another operation.
        reduce<std::int64_t>(world, kept, 4 * KiB / 2, 1);
        EXPECT_EQ(counter(), 0u);
        reduce(world, kept, 4 * KiB / 2, bfloat16(0.5F), ReduceOp::avg);
        EXPECT_EQ(counter(), 0u);
        // Sums of bfloat16 up to 10 MiB.
        reduce(world, kept, 4 * KiB / 2, 1_bf16);
        EXPECT_EQ(counter(), 1u);
        reduce(world, kept, 512 * KiB / 2, 1_bf16);
        EXPECT_EQ(counter(), 2u);
        reduce(world, kept, 10 * MiB / 2, 1_bf16);
        EXPECT_EQ(counter(), 3u);
        // One element more.
        reduce(world, kept, 10 * MiB / 2 + 1, 1_bf16);
        EXPECT_EQ(counter(), 3u);
        EXPECT_EQ(uses_of_path(world.group(), "nccl"), 3u);
        world.group().barrier();
      },
      {}, as_c10d());
}

TEST_F(PeerChoice, C10dTakesOneShotThenTwoShotThenNccl) {
  gpus.run(
      [&](World& world) {
        const auto taken = [&](std::size_t bytes) { return explain(world, bytes).algorithm; };
        EXPECT_EQ(taken(4 * KiB), "all_reduce_one_shot");
        EXPECT_EQ(taken(512 * KiB), "all_reduce_two_shot");
        EXPECT_EQ(taken(10 * MiB), "all_reduce_two_shot");
        EXPECT_EQ(taken(10 * MiB + 2), "all_reduce_nccl");
        EXPECT_EQ(explain(world, 4 * KiB, DataType::float32).algorithm, "all_reduce_nccl");
      },
      {}, as_c10d());
}

TEST_F(PeerChoice, C10dSaysWhyItLeavesSomethingToNccl) {
  gpus.run(
      [&](World& world) {
        const std::string only = "HYMN_P2P_COMPAT=c10d: only all_reduce of bfloat16 with sum";
        EXPECT_EQ(reason_of(explain(world, 4 * KiB, DataType::bfloat16, ReduceOp::avg),
                            "all_reduce_one_shot"),
                  only);
        EXPECT_EQ(reason_of(explain(world, 4 * KiB, DataType::float16), "all_reduce_two_shot"),
                  only);
        EXPECT_EQ(reason_of(explain(world, 10 * MiB + 2), "all_reduce_two_shot"),
                  "HYMN_P2P_COMPAT=c10d: at most 10485760 bytes");
        EXPECT_THAT(reason_of(explain(world, MiB), "all_reduce_one_shot"), HasSubstr("two shots"));
        Request barrier = Request::barrier();
        barrier.domain = {OrderingDomain::Kind::stream, gpus.make_stream(world.rank())};
        const Explanation told = world.group().explain(barrier);
        EXPECT_EQ(told.algorithm, "barrier_nccl");
        EXPECT_EQ(reason_of(told, "barrier_windows"), only);
      },
      {}, as_c10d());
}

TEST_F(PeerChoice, APathSettingForbidsItToC10dToo) {
  gpus.run(
      [&](World& world) {
        Kept kept;
        reduce(world, kept, 4 * KiB / 2, 1_bf16);
        EXPECT_EQ(uses_of_path(world.group(), "cuda_p2p"), 0u);
      },
      {}, as_c10d("^cuda_p2p"));
  EXPECT_EQ(gpus.count("all_reduce"), 2);
}

TEST_F(PeerChoice, C10dIsASettingOfAllRanks) {
  const auto box = share_box({});
  std::vector<PretendedRank> ranks(2, {.host = "a", .machine = box, .cpus = box->cpus});
  ranks[1].config = as_c10d();
  const std::string said =
      thrown_by<RanksFailed>([&ranks] { run_pretended_ranks(ranks, [](World&) {}); });
  EXPECT_THAT(said, HasSubstr("HYMN_P2P_COMPAT is "));
  EXPECT_THAT(said, HasSubstr("start all ranks with the same settings"));
}

}  // namespace
}  // namespace hymn::test
