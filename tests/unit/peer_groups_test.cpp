// Groups whose calls go through peer memory, over toy GPUs: choice, streams, failures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "collectives/cuda/kernel_image.hpp"
#include "collectives/cuda/peer_rules.hpp"
#include "hymn/error.hpp"
#include "tests/support/all_are.hpp"
#include "tests/unit/peer_candidate.hpp"
#include "tests/unit/toy_gpus.hpp"

namespace hymn::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

using Floats = std::vector<float>;

class PeerGroups : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda::kernel_image().empty()) GTEST_SKIP() << "hymn was built without nvcc";
  }
  static Config config(const char* path = "cuda_p2p,nccl,staged,threads") {
    Config config;
    config.path = PathPolicy::parse(path, "HYMN_PATH");
    return config;
  }
  static float value_of(World& world) { return static_cast<float>(world.rank() + 1); }
};

TEST_F(PeerGroups, SmallOnesGoInOneShotAndLargerOnesInTwo) {
  ToyGpus gpus(4);
  gpus.run(
      [&](World& world) {
        ProcessGroup& group = world.group();
        constexpr std::size_t largest = peer_slot_bytes + sizeof(float);
        ToyBuffer<float> buffer(gpus, world.rank(), Floats(largest / sizeof(float)));
        for (const std::size_t bytes : {std::size_t{4} << 10, largest}) {
          const BufferView view(buffer.data(), bytes / sizeof(float), DataType::float32,
                                MemoryKind::device);
          std::fill_n(buffer.data(), view.count, value_of(world));
          EXPECT_EQ(group.explain(Request::all_reduce(view, view)).algorithm,
                    bytes == 4096 ? "all_reduce_one_shot" : "all_reduce_two_shot");
          group.all_reduce(view);
          EXPECT_TRUE(all_are(std::span(buffer.data(), view.count), 10.0F));
        }
        group.barrier();  // memory is freed when all kernels have ended
      },
      {}, config());
  EXPECT_EQ(gpus.count("all_reduce"), 0) << "NCCL has been used";
  EXPECT_THAT(gpus.violations(), IsEmpty());
}

TEST_F(PeerGroups, WithoutNcclTheOthersGoThroughTheStagingBuffers) {
  ToyGpus gpus(3);
  gpus.run(
      [&](World& world) {
        ToyBuffer<float> mine(gpus, world.rank(), Floats(5, value_of(world)));
        ToyBuffer<float> all(gpus, world.rank(), Floats(15));
        world.group().all_gather(mine.view(), all.view());
        EXPECT_EQ(all.values(), (Floats{1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3}));
        world.group().broadcast(mine.view(), 2);
        EXPECT_THAT(mine.values(), Each(3.0F));
      },
      {}, config("cuda_p2p,threads"));
  EXPECT_THAT(gpus.violations(), IsEmpty());
}

TEST_F(PeerGroups, AReduceScatterMayBeInPlace) {
  ToyGpus gpus(3);
  gpus.run(
      [&](World& world) {
        const auto me = static_cast<std::size_t>(world.rank());
        ToyBuffer<float> blocks(gpus, world.rank(), Floats(15, value_of(world)));
        world.group().reduce_scatter(blocks.view(), blocks.view().slice(5 * me, 5));
        Floats expected(15, value_of(world));
        std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(5 * me), 5, 6.0F);
        EXPECT_EQ(blocks.values(), expected);
        EXPECT_EQ(world.group().uses().front().algorithm, "reduce_scatter_windows");
        world.group().barrier();
      },
      {}, config("cuda_p2p,threads"));
  EXPECT_THAT(gpus.violations(), IsEmpty());
}

TEST_F(PeerGroups, RootedOnesGoThroughTheStagingBuffers) {
  ToyGpus gpus(3);
  gpus.run(
      [&](World& world) {
        const int me = world.rank();
        ProcessGroup& group = world.group();
        ToyBuffer<float> mine(gpus, me, Floats(5, value_of(world)));
        ToyBuffer<float> sum(gpus, me, Floats(5));
        group.reduce(mine.view(), sum.view(), 1);
        EXPECT_THAT(sum.values(), Each(me == 1 ? 6.0F : 0.0F));
        ToyBuffer<float> all(gpus, me, Floats(15));
        group.gather(mine.view(), all.view(), 2);
        if (me == 2) {
          EXPECT_EQ(all.values(), (Floats{1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3}));
        } else {
          EXPECT_THAT(all.values(), Each(0.0F));
        }
        group.scatter(all.view(), sum.view(), 2);
        EXPECT_THAT(sum.values(), Each(value_of(world)));
        std::vector<std::string> used;
        for (const AlgorithmUse& use : group.uses()) used.push_back(use.algorithm);
        EXPECT_THAT(used,
                    UnorderedElementsAre("reduce_windows", "gather_windows", "scatter_windows"));
        group.barrier();
      },
      {}, config("cuda_p2p,threads"));
  EXPECT_THAT(gpus.violations(), IsEmpty());
}

TEST_F(PeerGroups, BlocksThatAreNotEqualAreNotForTheKernels) {
  ToyGpus gpus(2);
  gpus.run(
      [&](World& world) {
        const int me = world.rank();
        const std::vector<std::size_t> counts = {1, 2};
        ToyBuffer<float> mine(gpus, me, Floats(counts[static_cast<std::size_t>(me)]));
        ToyBuffer<float> all(gpus, me, Floats(3));
        const std::vector<BufferView> list = {all.view().slice(0, mine.view().count),
                                              all.view().slice(2, 1)};
        // The root gives a list, the others nothing.
        for (const OutputBlocks& blocks : {OutputBlocks::counted(all.view(), counts),
                                           me == 0 ? OutputBlocks::list(list) : OutputBlocks()})
          EXPECT_EQ(peer_candidate(world.group(), Request::gather(mine.view(), blocks, 0),
                                   "gather_windows")
                        .reason,
                    "the kernels support only equal blocks of one buffer");
        world.group().barrier();
      },
      {}, config());
}

// Nothing of peer memory carries messages: they go as where there is none.
TEST_F(PeerGroups, MessagesGoByOtherPaths) {
  for (const std::string_view other : {"nccl", "staged"}) {
    ToyGpus gpus(2);
    const std::string path = "cuda_p2p," + std::string(other) + ",threads,exchange";
    gpus.run(
        [&](World& world) {
          ToyBuffer<float> buffer(gpus, world.rank(), Floats(5, value_of(world)));
          if (world.rank() == 0)
            world.group().send(buffer.view(), 1);
          else
            world.group().recv(buffer.view(), 0);
          EXPECT_THAT(buffer.values(), Each(1.0F));
          ASSERT_EQ(world.group().uses().size(), 1u);
          EXPECT_EQ(world.group().uses()[0].path, other);
          world.group().barrier();
        },
        {}, config(path.c_str()));
    EXPECT_THAT(gpus.violations(), IsEmpty());
  }
}

// --- Barriers on streams

/// Time for a kernel that would wrongly end, and for what is behind it.
void let_work(ToyGpus& gpus, void* stream) {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  gpus.enqueue(stream, [] {});
}

Request barrier_on(void* stream) {
  Request request = Request::barrier();
  request.domain = {OrderingDomain::Kind::stream, stream};
  return request;
}

TEST_F(PeerGroups, BarriersOnStreamsHoldUpNoHost) {
  for (const char* const path : {"cuda_p2p,nccl,staged,threads", "cuda_p2p,staged,threads"}) {
    ToyGpus gpus(2);
    std::atomic<bool> has_gone_on = false;
    gpus.run(
        [&](World& world) {
          ProcessGroup& group = world.group();
          void* const stream = gpus.make_stream(world.rank());
          EXPECT_EQ(group.explain(barrier_on(stream)).algorithm, "barrier_windows");
          bool after = false;
          if (world.rank() == 1) {
            EXPECT_TRUE(eventually([&has_gone_on] { return has_gone_on.load(); }));
          }
          group.barrier({.stream = stream});
          gpus.enqueue(stream, [&after] { after = true; });
          if (world.rank() == 0) {
            let_work(gpus, stream);
            EXPECT_FALSE(after) << "rank 1 has not arrived";
            has_gone_on = true;
          }
          EXPECT_TRUE(gpus.synchronize(stream));
          EXPECT_TRUE(after);
          group.wait_for_pending_works();
          group.barrier();
        },
        {}, config(path));
    EXPECT_EQ(gpus.count("all_reduce"), 0) << "NCCL has been used";
    EXPECT_THAT(gpus.violations(), IsEmpty());
  }
}

TEST_F(PeerGroups, ABarrierGoesIntoAGraph) {
  ToyGpus gpus(2);
  std::atomic<int> launches = 0;
  gpus.run(
      [&](World& world) {
        ProcessGroup& group = world.group();
        void* const stream = gpus.make_stream(world.rank());
        gpus.capture(stream);
        group.barrier({.stream = stream});
        gpus.end_capture(stream);
        for (int round = 1; round <= 2; ++round) {
          if (world.rank() == 1) {
            EXPECT_TRUE(eventually([&] { return launches.load() == round; }));
          }
          bool after = false;
          gpus.launch_graph(stream);
          gpus.enqueue(stream, [&after] { after = true; });
          if (world.rank() == 0) {
            let_work(gpus, stream);
            EXPECT_FALSE(after) << "rank 1 has not launched it";
            ++launches;
          }
          EXPECT_TRUE(gpus.synchronize(stream));
          EXPECT_TRUE(after);
        }
        group.barrier();
      },
      {}, config());
  EXPECT_THAT(gpus.violations(), IsEmpty());
}

TEST_F(PeerGroups, ARankThatDoesNotComeToABarrierIsNotWaitedForForEver) {
  ToyGpus gpus(2);
  std::atomic<bool> is_over = false;
  gpus.run(
      [&](World& world) {
        if (world.rank() == 1) {
          EXPECT_TRUE(eventually([&is_over] { return is_over.load(); }));
          return;
        }
        void* const stream = gpus.make_stream(0);
        Work work = world.group().barrier_async(
            {.timeout = std::chrono::milliseconds(50), .stream = stream});
        EXPECT_THROW(work.wait(), TimeoutError);
        EXPECT_TRUE(gpus.synchronize(stream)) << "the kernel has not ended";
        is_over = true;
      },
      {}, config());
}

// --- Kernels

TEST_F(PeerGroups, KernelsAreLoadedOnceForAllGroups) {
  ToyGpus gpus(2);
  gpus.run(
      [&](World& world) {
        ToyBuffer<float> buffer(gpus, world.rank(), Floats(4, 1.0F));
        for (int i = 0; i < 3; ++i) world.new_group({0, 1}).all_reduce(buffer.view());
        EXPECT_THAT(buffer.values(), Each(8.0F));
        world.group().barrier();
      },
      {}, config());
  EXPECT_EQ(gpus.count("load_module"), 2) << "one for each GPU";
  EXPECT_EQ(gpus.count("unload_module"), 2);
}

// --- Staging buffers are used again

TEST_F(PeerGroups, GroupsOfTheSameRanksUseTheSameStagingBuffersInTurn) {
  ToyGpus gpus(2);
  gpus.run(
      [&](World& world) {
        ToyBuffer<float> buffer(gpus, world.rank(), Floats(4, 1.0F));
        const auto reduce = [&](ProcessGroup group) { group.all_reduce(buffer.view()); };
        const auto allocations = [&] {
          world.group().barrier();
          const int open = gpus.open_allocations();
          world.group().barrier();
          return open;
        };
        reduce(world.new_group({0, 1}));
        const int before = allocations();
        for (int i = 0; i < 5; ++i) reduce(world.new_group({0, 1}));
        EXPECT_EQ(allocations(), before + 2)
            << "one staging buffer each is at hand for a next group";
        EXPECT_THAT(buffer.values(), Each(64.0F));
        reduce(world.new_group({1, 0}));
        EXPECT_EQ(allocations(), before + 2) << "in another order it is another group";
        EXPECT_THAT(buffer.values(), Each(128.0F));
      },
      {}, config());
  EXPECT_EQ(gpus.open_allocations(), 0);
}

// Rank 1 still has the first group when the second is made: nothing can be used again then.
TEST_F(PeerGroups, StagingBuffersAreUsedAgainByAllOrByNobody) {
  ToyGpus gpus(2);
  gpus.run(
      [&](World& world) {
        ToyBuffer<float> buffer(gpus, world.rank(), Floats(4, 1.0F));
        std::optional<ProcessGroup> first = world.new_group({0, 1});
        first->all_reduce(buffer.view());
        if (world.rank() == 0) first.reset();
        ProcessGroup second = world.new_group({0, 1});
        second.all_reduce(buffer.view());
        first.reset();
        second.all_reduce(buffer.view());
        world.new_group({0, 1}).all_reduce(buffer.view());
        EXPECT_THAT(buffer.values(), Each(16.0F));
        world.group().barrier();
      },
      {}, config());
}

TEST_F(PeerGroups, StagingBuffersOfAGroupThatWasGivenUpAreNot) {
  ToyGpus gpus(2);
  gpus.run(
      [&](World& world) {
        ToyBuffer<float> buffer(gpus, world.rank(), Floats(4, 1.0F));
        {
          ProcessGroup group = world.new_group({0, 1});
          group.all_reduce(buffer.view());
          world.group().barrier();
          group.abort("the test wants it so");
        }
        world.new_group({0, 1}).all_reduce(buffer.view());
        EXPECT_THAT(buffer.values(), Each(4.0F));
        world.group().barrier();
      },
      {}, config());
}

TEST_F(PeerGroups, NobodyIsOfferedAStagingBufferWithoutBeingAsked) {
  ToyGpus gpus(2);
  gpus.run([&](World& world) {
    EXPECT_EQ(gpus.open_allocations(), 0);
    ToyBuffer<float> buffer(gpus, world.rank(), Floats(4, 1.0F));
    const Request request = Request::all_reduce(buffer.view(), buffer.view());
    EXPECT_EQ(peer_candidate(world.group(), request, "all_reduce_one_shot").reason,
              "it has not been measured here: run `hymn tune --memory device` on 2 ranks, or name "
              "cuda_p2p in HYMN_PATH");
    world.group().barrier();
  });
}

TEST_F(PeerGroups, WhatCannotRunIsNotToBeMeasured) {
  ToyGpus gpus(2);
  gpus.run_with_others(3, [&](World& world) {
    if (world.rank() == 2) return;
    ToyBuffer<float> buffer(gpus, world.rank(), Floats(4));
    const BufferView view(buffer.data(), 4, DataType::float32, MemoryKind::device);
    EXPECT_EQ(peer_candidate(world.group(), Request::all_reduce(view, view), "all_reduce_one_shot")
                  .reason,
              "rank 2 has no GPU");
  });
}

TEST_F(PeerGroups, AMemberWithoutAGpuIsTheReason) {
  ToyGpus gpus(2);
  gpus.run_with_others(
      3,
      [&](World& world) {
        if (world.rank() == 2) return;
        ToyBuffer<float> buffer(gpus, world.rank(), Floats(4));
        const BufferView view(buffer.data(), 4, DataType::float32, MemoryKind::device);
        EXPECT_EQ(
            peer_candidate(world.group(), Request::all_reduce(view, view), "all_reduce_one_shot")
                .reason,
            "rank 2 has no GPU");
      },
      config());
}

TEST_F(PeerGroups, WhatIsOnAStreamComesAfterWhatIsThere) {
  ToyGpus gpus(2);
  gpus.run(
      [&](World& world) {
        ToyBuffer<float> buffer(gpus, world.rank(), Floats(64));
        void* const stream = gpus.make_stream(world.rank());
        gpus.enqueue(stream, [&] { std::fill_n(buffer.data(), 64, value_of(world)); });
        world.group().all_reduce(buffer.view(), ReduceOp::sum, {.stream = stream});
        gpus.enqueue(stream, [&] { buffer.data()[0] += 1; });
        EXPECT_TRUE(gpus.synchronize(stream));
        EXPECT_EQ(buffer.data()[0], 4.0F);
        EXPECT_EQ(buffer.data()[63], 3.0F);
        world.group().barrier();
      },
      {}, config());
  EXPECT_THAT(gpus.violations(), IsEmpty());
}

TEST_F(PeerGroups, AGraphMayBeLaunchedAgain) {
  ToyGpus gpus(2);
  gpus.run(
      [&](World& world) {
        ToyBuffer<float> buffer(gpus, world.rank(), Floats(64));
        void* const stream = gpus.make_stream(world.rank());
        gpus.capture(stream);
        world.group().all_reduce(buffer.view(), ReduceOp::sum, {.stream = stream});
        gpus.end_capture(stream);
        for (int i = 1; i <= 3; ++i) {
          gpus.enqueue(stream, [&, i] {
            std::fill_n(buffer.data(), 64, value_of(world) * static_cast<float>(i));
          });
          gpus.launch_graph(stream);
          EXPECT_TRUE(gpus.synchronize(stream));
          EXPECT_THAT(buffer.values(), Each(3.0F * static_cast<float>(i)));
        }
        world.group().barrier();
        world.group().all_reduce(buffer.view());
        EXPECT_THAT(buffer.values(), Each(18.0F)) << "after the graph";
        world.group().barrier();
      },
      {}, config());
  EXPECT_THAT(gpus.violations(), IsEmpty());
}

TEST_F(PeerGroups, ARankThatNeverCallsIsNotWaitedForForEver) {
  ToyGpus gpus(2);
  std::atomic<bool> is_over = false;
  gpus.run(
      [&](World& world) {
        if (world.rank() == 1) {
          EXPECT_TRUE(eventually([&is_over] { return is_over.load(); }));
          return;
        }
        ToyBuffer<float> buffer(gpus, 0, Floats(64, 1.0F));
        EXPECT_THROW(world.group().all_reduce(buffer.view(), ReduceOp::sum,
                                              {.timeout = std::chrono::milliseconds(50)}),
                     TimeoutError);
        EXPECT_THROW(world.group().all_reduce(buffer.view()), Error);
        is_over = true;
      },
      {}, config());
  EXPECT_EQ(gpus.count("all_reduce"), 0) << "NCCL has been used";
}

}  // namespace
}  // namespace hymn::test
