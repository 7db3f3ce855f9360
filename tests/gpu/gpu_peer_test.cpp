// Peer memory on a real GPU: ranks that are threads share it, each with a stream of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <list>
#include <numeric>
#include <random>
#include <type_traits>
#include <vector>

#include "collectives/cuda/kernel_image.hpp"
#include "hymn/error.hpp"
#include "tests/gpu/real_gpu.hpp"
#include "tests/support/all_are.hpp"

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

// To allocate and to free memory may wait for all kernels of the GPU, also for one that waits for
// the rank that does it: so there is a barrier behind the first, and one before the second.
void meet_on_the_host(World& world) { world.group().barrier(); }

const GroupOptions through_staging{.path = "cuda_p2p,threads"};

ProcessGroup group_of_all(World& world) {
  std::vector<int> everybody;
  for (int rank = 0; rank < world.size(); ++rank) everybody.push_back(rank);
  return world.new_group(everybody, through_staging);
}

/// One element more than fits into a staging buffer goes in pieces; small ones in one shot.
TEST_P(GpuPeer, AllReduceOfAnySize) {
  run_ranks(GetParam(), [](World& world) {
    ProcessGroup group = group_of_all(world);
    const float sum = static_cast<float>(world.size() * (world.size() + 1)) / 2;
    const auto mine = static_cast<float>(world.rank() + 1);
    std::list<RealBuffer<float>> buffers;
    std::list<RealBuffer<bfloat16>> halves;
    for (const std::size_t count : {1, 3, 1024, 65537, (4 << 18) + 1, 1 << 22}) {
      buffers.emplace_back(std::vector<float>(count, mine));
      halves.emplace_back(std::vector<bfloat16>(count, bfloat16(mine)));
    }
    meet_on_the_host(world);
    for (const RealBuffer<float>& buffer : buffers) {
      group.all_reduce(buffer.view());
      EXPECT_TRUE(all_are(buffer.values(), sum)) << buffer.view().count << " elements";
    }
    for (const RealBuffer<bfloat16>& half : halves) {
      group.all_reduce(half.view(), ReduceOp::max);
      EXPECT_TRUE(all_are(half.values(), bfloat16(static_cast<float>(world.size()))));
    }
    meet_on_the_host(world);
  });
}

template <class T>
std::vector<T> of_any_bits(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<T> values(count);
  std::vector<std::uint32_t> bits(count * sizeof(T) / 4 + 1);
  for (std::uint32_t& each : bits) each = static_cast<std::uint32_t>(random());
  std::memcpy(static_cast<void*>(values.data()), bits.data(), count * sizeof(T));
  return values;
}

/// Which arithmetic on a GPU makes of another NaN is not said.
template <class T>
bool is_nan(T value) {
  if constexpr (std::is_integral_v<T>) return false;
  const auto wide = static_cast<double>(static_cast<float>(value));
  return wide != wide;
}

/// At the beginning of a buffer, and at an address that no 16 bytes begin at; few, and many.
template <class T>
void expect_bits_of_the_host(World& world, ProcessGroup& on_gpus, ProcessGroup& on_host,
                             std::vector<ReduceOp> ops) {
  constexpr std::size_t most = 40'003;
  const std::vector<T> mine = of_any_bits<T>(most + 1, static_cast<unsigned>(world.rank()) + 1);
  for (const ReduceOp op : ops)
    for (const std::size_t count : {std::size_t{1}, std::size_t{999}, most})
      for (const std::size_t begin : {0, 1}) {
        std::vector<T> expected(mine.begin() + static_cast<std::ptrdiff_t>(begin),
                                mine.begin() + static_cast<std::ptrdiff_t>(begin + count));
        const RealBuffer<T> buffer(mine);
        const BufferView all = buffer.view();
        meet_on_the_host(world);
        on_gpus.all_reduce(BufferView(static_cast<T*>(all.data) + begin, count, all.dtype), op);
        const std::vector<T> found = buffer.values();
        on_host.all_reduce(BufferView(expected), op);
        const bool keeps_nan = op.kind() == ReduceKind::max || op.kind() == ReduceKind::min;
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < count; ++i) {
          const T one = found[begin + i];
          if (std::memcmp(&one, &expected[i], sizeof(T)) == 0) continue;
          wrong += !keeps_nan && is_nan(one) && is_nan(expected[i]) ? 0 : 1;
        }
        EXPECT_EQ(wrong, 0U) << to_string(all.dtype) << ' ' << to_string(op.kind()) << ", " << count
                             << " from " << begin;
        EXPECT_EQ(std::memcmp(found.data() + begin + count, mine.data() + begin + count,
                              sizeof(T) * (most - begin - count + 1)),
                  0)
            << "behind the end";
        meet_on_the_host(world);
      }
}

/// Of NaNs, infinities, what is subnormal, and ties.
TEST_P(GpuPeer, BitsAreThoseOfTheHost) {
  run_ranks(GetParam(), [](World& world) {
    ProcessGroup on_gpus = group_of_all(world);
    ProcessGroup on_host =
        world.new_group(on_gpus.membership().ranks,
                        {.path = "threads", .reproducibility = Reproducibility::placement});
    const std::vector<ReduceOp> all = {ReduceOp::sum, ReduceOp::avg, ReduceOp::max, ReduceOp::min};
    expect_bits_of_the_host<float>(world, on_gpus, on_host, all);
    expect_bits_of_the_host<float16>(world, on_gpus, on_host, all);
    expect_bits_of_the_host<bfloat16>(world, on_gpus, on_host, all);
    expect_bits_of_the_host<std::int32_t>(world, on_gpus, on_host, {ReduceOp::sum});
    expect_bits_of_the_host<std::int64_t>(world, on_gpus, on_host, {ReduceOp::sum});
    expect_bits_of_the_host<double>(world, on_gpus, on_host, {ReduceOp::sum});
  });
}

TEST_P(GpuPeer, TheOthersGoThroughTheStagingBuffers) {
  run_ranks(GetParam(), [](World& world) {
    ProcessGroup group = group_of_all(world);
    const auto size = static_cast<std::size_t>(world.size());
    const RealBuffer<int> mine(std::vector<int>(1001, world.rank()));
    const RealBuffer<int> all(std::vector<int>(1001 * size));
    meet_on_the_host(world);
    group.all_gather(mine.view(), all.view());
    const std::vector<int> found = all.values();
    for (std::size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], static_cast<int>(i / 1001));
    group.reduce_scatter(all.view(), mine.view());
    EXPECT_THAT(mine.values(), Each(world.rank() * world.size()));
    group.broadcast(mine.view(), world.size() - 1);
    EXPECT_THAT(mine.values(), Each((world.size() - 1) * world.size()));
    meet_on_the_host(world);
  });
}

TEST_P(GpuPeer, RootedOnesGoThroughTheStagingBuffers) {
  run_ranks(GetParam(), [](World& world) {
    ProcessGroup group = group_of_all(world);
    const auto size = static_cast<std::size_t>(world.size());
    const int root = world.size() - 1;
    const bool is_root = world.rank() == root;
    const RealBuffer<int> mine(std::vector<int>(1001, world.rank()));
    const RealBuffer<int> result(std::vector<int>(1001, -1));
    const RealBuffer<int> all(std::vector<int>(1001 * size, -1));
    meet_on_the_host(world);
    group.reduce(mine.view(), result.view(), root);
    EXPECT_THAT(result.values(), Each(is_root ? root * world.size() / 2 : -1));
    group.gather(mine.view(), all.view(), root);
    const std::vector<int> found = all.values();
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_EQ(found[i], is_root ? static_cast<int>(i / 1001) : -1);
    group.scatter(all.view(), result.view(), root);
    EXPECT_THAT(result.values(), Each(world.rank()));
    for (const AlgorithmUse& use : group.uses()) EXPECT_EQ(use.path, "cuda_p2p");
    meet_on_the_host(world);
  });
}

/// What the streams of all ranks have written before it they read after it; also from a graph.
TEST_P(GpuPeer, BarriersOnStreamsGoThroughTheStagingBuffers) {
  const auto ranks = static_cast<std::size_t>(GetParam());
  const RealBuffer<int> shared{std::vector<int>(ranks)};
  const cuda_api::Pointer shown = shared.address();
  run_ranks(GetParam(), [&](World& world) {
    ProcessGroup group = group_of_all(world);
    const GpuDevice::Entry entry(real_gpu());
    const RealStream stream;
    const RealBuffer<int> mine({world.rank() + 1});
    const RealBuffer<int> seen{std::vector<int>(ranks)};
    const auto meet = [&] {
      const auto place = static_cast<std::size_t>(world.rank()) * sizeof(int);
      stream.copy(shown + place, mine.address(), sizeof(int));
      group.barrier({.stream = stream.get()});
      stream.copy(seen.address(), shown, ranks * sizeof(int));
      group.barrier({.stream = stream.get()});  // before anybody writes there again
    };
    std::vector<int> expected(ranks);
    std::iota(expected.begin(), expected.end(), 1);
    meet_on_the_host(world);
    meet();
    stream.synchronize();
    EXPECT_EQ(seen.values(), expected);
    group.wait_for_pending_works();
    meet_on_the_host(world);
    RealCapture capture(stream);
    meet();
    capture.end();
    meet_on_the_host(world);
    for (int launch = 0; launch < 3; ++launch) capture.launch();
    stream.synchronize();
    EXPECT_EQ(seen.values(), expected);
    meet_on_the_host(world);
  });
}

/// Rank 0's kernel waits on the GPU for one that never comes: it must end with its call.
TEST(GpuPeerDeath, AKernelWhosePeerDoesNotComeEnds) {
  if (cuda::kernel_image().empty()) GTEST_SKIP() << "hymn was built without nvcc";
  run_ranks(2, [](World& world) {
    ProcessGroup group = world.new_group({0, 1}, through_staging);
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

TEST(GpuPeerDeath, ABarrierOnAStreamWhosePeerDoesNotComeEnds) {
  if (cuda::kernel_image().empty()) GTEST_SKIP() << "hymn was built without nvcc";
  run_ranks(2, [](World& world) {
    ProcessGroup group = world.new_group({0, 1}, through_staging);
    if (world.rank() == 0) {
      const GpuDevice::Entry entry(real_gpu());
      const RealStream stream;
      Work work =
          group.barrier_async({.timeout = std::chrono::milliseconds(200), .stream = stream.get()});
      EXPECT_THROW(work.wait(), TimeoutError);
      stream.synchronize();
    }
    world.group().barrier();
  });
}

}  // namespace
}  // namespace hymn::test
