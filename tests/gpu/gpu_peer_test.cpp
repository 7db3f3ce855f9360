// Peer memory on a real GPU: ranks that are threads share it, each with a stream of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "collectives/cuda/kernel_image.hpp"
#include "hymn/error.hpp"
#include "tests/gpu/real_gpu.hpp"

namespace hymn::test {
namespace {

using ::testing::Each;

class GpuPeer : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (cuda::kernel_image().empty()) GTEST_SKIP() << "hymn was built without nvcc";
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, GpuPeer, testing::Values(2, 4, 8));

const GroupOptions through_windows{.path = "cuda_p2p,threads"};

/// One element more than fits into a window goes in pieces; small ones in one shot.
TEST_P(GpuPeer, AllReduceOfAnySize) {
  run_ranks(GetParam(), [](World& world) {
    std::vector<int> everybody;
    for (int rank = 0; rank < world.size(); ++rank) everybody.push_back(rank);
    ProcessGroup group = world.new_group(everybody, through_windows);
    const float sum = static_cast<float>(world.size() * (world.size() + 1)) / 2;
    for (const std::size_t count : {1, 3, 1024, 65537, (4 << 18) + 1, 1 << 22}) {
      const std::vector<float> mine(count, static_cast<float>(world.rank() + 1));
      const RealBuffer<float> buffer(mine);
      group.all_reduce(buffer.view());
      EXPECT_THAT(buffer.values(), Each(sum)) << count << " elements";
      const RealBuffer<bfloat16> half(std::vector<bfloat16>(count, bfloat16(mine.front())));
      group.all_reduce(half.view(), ReduceOp::max);
      EXPECT_THAT(half.values(), Each(bfloat16(static_cast<float>(world.size()))));
    }
  });
}

TEST_P(GpuPeer, TheOthersGoThroughTheWindows) {
  run_ranks(GetParam(), [](World& world) {
    std::vector<int> everybody;
    for (int rank = 0; rank < world.size(); ++rank) everybody.push_back(rank);
    ProcessGroup group = world.new_group(everybody, through_windows);
    const auto size = static_cast<std::size_t>(world.size());
    const RealBuffer<int> mine(std::vector<int>(1001, world.rank()));
    const RealBuffer<int> all(std::vector<int>(1001 * size));
    group.all_gather(mine.view(), all.view());
    const std::vector<int> found = all.values();
    for (std::size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], static_cast<int>(i / 1001));
    group.reduce_scatter(all.view(), mine.view());
    EXPECT_THAT(mine.values(), Each(world.rank() * world.size()));
    group.broadcast(mine.view(), world.size() - 1);
    EXPECT_THAT(mine.values(), Each((world.size() - 1) * world.size()));
  });
}

/// Rank 0's kernel waits on the GPU for one that never comes: it must end with its call.
TEST(GpuPeerDeath, AKernelWhosePeerDoesNotComeEnds) {
  if (cuda::kernel_image().empty()) GTEST_SKIP() << "hymn was built without nvcc";
  run_ranks(2, [](World& world) {
    ProcessGroup group = world.new_group({0, 1}, through_windows);
    const RealBuffer<float> buffer(std::vector<float>(64, 1.0F));
    if (world.rank() == 0) {
      EXPECT_THROW(group.all_reduce(buffer.view(), ReduceOp::sum,
                                    {.timeout = std::chrono::milliseconds(200)}),
                   TimeoutError);
      const GpuDevice::Entry entry(real_gpu());
      call_driver("cuCtxSynchronize", real_gpu().cuda().synchronize.pointer());
    }
    world.group().barrier();
  });
}

}  // namespace
}  // namespace hymn::test
