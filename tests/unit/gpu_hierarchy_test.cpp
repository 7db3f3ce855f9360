// Groups on several hosts whose calls go through peer memory inside each, over toy GPUs: results,
// choice, order, failures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/sanitizers.hpp"
#include "collectives/cuda/kernel_image.hpp"
#include "collectives/cuda/peer_rules.hpp"
#include "hymn/error.hpp"
#include "hymn/threads.hpp"
#include "tests/unit/peer_candidate.hpp"
#include "tests/unit/toy_gpus.hpp"

namespace hymn::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Floats = std::vector<float>;

constexpr const char* by_nccl = "all_reduce_hierarchical_nccl";
constexpr const char* by_staging = "all_reduce_hierarchical_staged";

class GpuHierarchy : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (cuda::kernel_image().empty()) GTEST_SKIP() << "hymn was built without nvcc";
  }
  /// For all_reduce nothing but this algorithm.
  static Config only(std::string_view algorithm,
                     const char* path = "cuda_p2p,nccl,staged,threads,exchange") {
    Config config;
    config.path = PathPolicy::parse(path, "HYMN_PATH");
    config.algo = algorithm;
    return config;
  }
  static Config only_this() { return only(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(BetweenHosts, GpuHierarchy, testing::Values(by_nccl, by_staging));

/// Element i of a rank: small whole numbers, so that every order of additions gives the same.
float element(int rank, std::size_t i) { return static_cast<float>((rank + 1) * (i % 7 + 1)); }

template <class T>
std::vector<T> elements(int rank, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = T(element(rank, i));
  return values;
}
template <class T>
std::vector<T> sums(int ranks, std::size_t count, int divided_by = 1) {
  std::vector<T> values(count);
  const auto factor = static_cast<float>(ranks * (ranks + 1) / 2) / static_cast<float>(divided_by);
  for (std::size_t i = 0; i < count; ++i) values[i] = T(factor * static_cast<float>(i % 7 + 1));
  return values;
}

std::uint64_t uses_of(const ProcessGroup& group, std::string_view algorithm) {
  for (const AlgorithmUse& use : group.uses())
    if (use.path == "cuda_p2p" && use.algorithm == algorithm) return use.count;
  return 0;
}

// Some are cut evenly, some leave a tail, some are nothing else.
TEST_P(GpuHierarchy, SumsAreRightAtAnySize) {
  std::vector<std::vector<int>> worlds = {{3, 3}, {2, 2}, {2, 2, 2}};
  if (sanitized) worlds.resize(1);  // the others do the same, more or less often
  for (const std::vector<int>& hosts : worlds) {
    const int ranks = static_cast<int>(hosts.size()) * hosts.front();
    ToyGpus gpus(ranks);
    gpus.run_on_hosts(
        hosts,
        [&](World& world) {
          std::vector<std::shared_ptr<ToyBuffer<float>>> kept;
          for (const std::size_t count : {0, 1, 5, 8, 24, 25, 1000, 4099}) {
            const auto in = kept.emplace_back(std::make_shared<ToyBuffer<float>>(
                gpus, world.rank(), elements<float>(world.rank(), count)));
            const auto out = kept.emplace_back(
                std::make_shared<ToyBuffer<float>>(gpus, world.rank(), Floats(count)));
            // One without elements is where it says.
            const BufferView given(in->data(), count, DataType::float32, MemoryKind::device);
            const BufferView wanted(out->data(), count, DataType::float32, MemoryKind::device);
            world.group().all_reduce(given, wanted);
            EXPECT_EQ(out->values(), sums<float>(ranks, count));
            EXPECT_EQ(in->values(), elements<float>(world.rank(), count));
            world.group().all_reduce(given);
            EXPECT_EQ(in->values(), sums<float>(ranks, count)) << "in place";
          }
          EXPECT_EQ(uses_of(world.group(), GetParam()), 16u);
          world.group().barrier();
        },
        only_this());
    EXPECT_THAT(gpus.violations(), IsEmpty());
  }
}

TEST_P(GpuHierarchy, WhatIsLargerThanAStagingBufferGoesInPieces) {
  ToyGpus gpus(4);
  gpus.run_on_hosts(
      {2, 2},
      [&](World& world) {
        constexpr std::size_t count = peer_slot_bytes / sizeof(float) + 1003;
        ToyBuffer<float> buffer(gpus, world.rank(), elements<float>(world.rank(), count));
        world.group().all_reduce(buffer.view());
        EXPECT_TRUE(buffer.values() == sums<float>(4, count));
        world.group().barrier();
      },
      only_this());
  EXPECT_THAT(gpus.violations(), IsEmpty());
}

TEST_P(GpuHierarchy, AllReductionsThatItTakesAreRight) {
  ToyGpus gpus(4);
  gpus.run_on_hosts(
      {2, 2},
      [&](World& world) {
        const int me = world.rank();
        constexpr std::size_t count = 77;
        ToyBuffer<bfloat16> sum(gpus, me, elements<bfloat16>(me, count));
        ToyBuffer<float> average(gpus, me, elements<float>(me, count));
        ToyBuffer<std::int32_t> whole(gpus, me, elements<std::int32_t>(me, count));
        ProcessGroup& group = world.group();
        group.all_reduce(sum.view());
        group.all_reduce(average.view(), ReduceOp::avg);
        group.all_reduce(whole.view());
        EXPECT_TRUE(sum.values() == sums<bfloat16>(4, count));
        EXPECT_EQ(average.values(), sums<float>(4, count, 4));
        EXPECT_EQ(whole.values(), sums<std::int32_t>(4, count));
        group.barrier();
      },
      only_this());
  EXPECT_THAT(gpus.violations(), IsEmpty());
}

TEST_P(GpuHierarchy, MembersMayLieOnTheHostsInAnyOrder) {
  ToyGpus gpus(6);
  gpus.run_on_hosts(
      {3, 3},
      [&](World& world) {
        ProcessGroup part = world.new_group({0, 2, 4, 5});
        if (part.is_member()) {
          ToyBuffer<float> buffer(gpus, world.rank(), Floats(50, 1.0F));
          part.all_reduce(buffer.view());
          EXPECT_EQ(buffer.values(), Floats(50, 4.0F));
          part.barrier();
        }
        world.group().barrier();
      },
      only_this());
  EXPECT_THAT(gpus.violations(), IsEmpty());
}

TEST_P(GpuHierarchy, WhatIsOnAStreamComesAfterWhatIsThere) {
  ToyGpus gpus(4);
  gpus.run_on_hosts(
      {2, 2},
      [&](World& world) {
        ToyBuffer<float> buffer(gpus, world.rank(), Floats(64));
        void* const stream = gpus.make_stream(world.rank());
        gpus.enqueue(stream, [&] { std::fill_n(buffer.data(), 64, 2.0F); });
        world.group().all_reduce(buffer.view(), ReduceOp::sum, {.stream = stream});
        gpus.enqueue(stream, [&] { buffer.data()[0] += 1; });
        EXPECT_TRUE(gpus.synchronize(stream));
        EXPECT_EQ(buffer.data()[0], 9.0F);
        EXPECT_EQ(buffer.data()[63], 8.0F);
        world.group().barrier();
      },
      only_this());
  EXPECT_THAT(gpus.violations(), IsEmpty());
}

// Several groups, and operations of NCCL between: all of them have one order.
TEST_P(GpuHierarchy, GroupsKeepTheOrderOfTheCalls) {
  ToyGpus gpus(4);
  gpus.run_on_hosts(
      {2, 2},
      [&](World& world) {
        const int me = world.rank();
        ProcessGroup other = world.new_group({0, 1, 2, 3});
        std::vector<std::unique_ptr<ToyBuffer<float>>> buffers;
        std::vector<Work> works;
        ToyBuffer<float> gathered(gpus, me, Floats(4));
        ToyBuffer<float> mine(gpus, me, {static_cast<float>(me)});
        for (int round = 0; round < 8; ++round) {
          ProcessGroup& group = round % 2 == 0 ? world.group() : other;
          buffers.push_back(std::make_unique<ToyBuffer<float>>(gpus, me, elements<float>(me, 100)));
          works.push_back(group.all_reduce_async(buffers.back()->view()));
          works.push_back(group.all_gather_async(mine.view(), gathered.view()));
        }
        for (auto work = works.rbegin(); work != works.rend(); ++work) work->wait();
        for (const auto& buffer : buffers) EXPECT_EQ(buffer->values(), sums<float>(4, 100));
        EXPECT_EQ(gathered.values(), (Floats{0, 1, 2, 3}));
        other.barrier();
        world.group().barrier();
      },
      only_this());
  EXPECT_THAT(gpus.violations(), IsEmpty());
}

TEST_P(GpuHierarchy, ARankThatNeverCallsIsNotWaitedForForEver) {
  for (const int absent : {1, 3}) {  // on the host of rank 0, and on the other
    ToyGpus gpus(4);
    std::atomic<int> failed = 0;
    gpus.run_on_hosts(
        {2, 2},
        [&](World& world) {
          if (world.rank() == absent) {
            EXPECT_TRUE(eventually([&failed] { return failed == 3; }));
            return;
          }
          ToyBuffer<float> buffer(gpus, world.rank(), Floats(64, 1.0F));
          EXPECT_THROW(world.group().all_reduce(buffer.view(), ReduceOp::sum,
                                                {.timeout = std::chrono::milliseconds(100)}),
                       Error);
          EXPECT_THROW(world.group().all_reduce(buffer.view()), Error);
          ++failed;
        },
        only_this());
  }
}

TEST_P(GpuHierarchy, NobodyHasItUnasked) {
  ToyGpus gpus(4);
  gpus.run_on_hosts({2, 2}, [&](World& world) {
    EXPECT_EQ(gpus.open_allocations(), 0);
    ToyBuffer<float> buffer(gpus, world.rank(), Floats(4, 1.0F));
    EXPECT_EQ(
        peer_candidate(world.group(), Request::all_reduce(buffer.view(), buffer.view()), GetParam())
            .reason,
        "it has not been measured here: run `hymn tune --memory device` on 4 ranks, or name "
        "cuda_p2p in HYMN_PATH");
    world.group().barrier();
  });
}

TEST_P(GpuHierarchy, C10dStaysInsideAHost) {
  ToyGpus gpus(4);
  Config config;
  config.p2p_compat = P2pCompat::c10d;
  gpus.run_on_hosts(
      {2, 2},
      [&](World& world) {
        EXPECT_EQ(gpus.open_allocations(), 0);
        ToyBuffer<bfloat16> buffer(gpus, world.rank(), std::vector<bfloat16>(64));
        const Request request = Request::all_reduce(buffer.view(), buffer.view());
        EXPECT_EQ(peer_candidate(world.group(), request, GetParam()).reason,
                  "HYMN_P2P_COMPAT=c10d: only inside a host");
        EXPECT_EQ(world.group().explain(request).path, "nccl");
        world.group().barrier();
      },
      config);
}

TEST_P(GpuHierarchy, ReasonsAreTold) {
  struct Case {
    std::vector<int> hosts;
    const char* reason;
  };
  for (const Case& each :
       {Case{{3}, "all ranks are on one host"}, Case{{1, 1}, "rank 0 is alone on its host"},
        Case{{3, 2},
             "the hosts have different numbers of ranks: 3 are with rank 0, 2 with rank 3"}}) {
    int ranks = 0;
    for (const int gpus : each.hosts) ranks += gpus;
    ToyGpus gpus(ranks);
    Config config;
    config.path = PathPolicy::parse("cuda_p2p,nccl,staged,threads,exchange", "HYMN_PATH");
    gpus.run_on_hosts(
        each.hosts,
        [&](World& world) {
          ToyBuffer<float> buffer(gpus, world.rank(), Floats(4, 1.0F));
          const Request request = Request::all_reduce(buffer.view(), buffer.view());
          EXPECT_EQ(peer_candidate(world.group(), request, GetParam()).reason, each.reason);
          world.group().all_reduce(buffer.view());
          EXPECT_EQ(buffer.values(), Floats(4, static_cast<float>(ranks)));
          world.group().barrier();
        },
        config);
  }
}

class GpuHierarchyByNccl : public GpuHierarchy {};
INSTANTIATE_TEST_SUITE_P(Only, GpuHierarchyByNccl, testing::Values(by_nccl));

TEST_P(GpuHierarchyByNccl, OneCommunicatorForEachShare) {
  ToyGpus gpus(4);
  gpus.run_on_hosts(
      {2, 2},
      [&](World& world) {
        ToyBuffer<float> buffer(gpus, world.rank(), Floats(64, 1.0F));
        EXPECT_EQ(gpus.count("init"), 0);
        world.group().barrier();
        world.group().all_reduce(buffer.view());
        world.group().all_reduce(buffer.view());
        EXPECT_EQ(buffer.values(), Floats(64, 16.0F));
        world.group().barrier();
      },
      only_this());
  EXPECT_EQ(gpus.count("init"), 4);
  EXPECT_EQ(gpus.count("all_reduce"), 16) << "with each share goes a word that it was folded";
  EXPECT_EQ(gpus.count("destroy"), 4);
  EXPECT_EQ(gpus.count("abort"), 0);
}

TEST_P(GpuHierarchyByNccl, GraphsHoldIt) {
  ToyGpus gpus(4);
  gpus.run_on_hosts(
      {2, 2},
      [&](World& world) {
        ToyBuffer<float> buffer(gpus, world.rank(), Floats(64, 1.0F));
        void* const stream = gpus.make_stream(world.rank());
        gpus.capture(stream);
        EXPECT_THAT(thrown_by<UsageError>([&] {
                      world.group().all_reduce(buffer.view(), ReduceOp::sum, {.stream = stream});
                    }),
                    HasSubstr("NCCL's communicator between the hosts has not been created yet"));
        gpus.end_capture(stream);
        world.group().all_reduce(buffer.view());
        gpus.capture(stream);
        world.group().all_reduce(buffer.view(), ReduceOp::sum, {.stream = stream});
        gpus.end_capture(stream);
        EXPECT_EQ(buffer.values(), Floats(64, 4.0F));
        world.group().barrier();
        for (int i = 0; i < 2; ++i) gpus.launch_graph(stream);
        EXPECT_TRUE(gpus.synchronize(stream));
        EXPECT_EQ(buffer.values(), Floats(64, 64.0F));
        world.group().barrier();
      },
      only_this());
  EXPECT_THAT(gpus.violations(), IsEmpty());
}

TEST_P(GpuHierarchyByNccl, WhatNcclReportsEndsIt) {
  ToyGpus gpus(4);
  gpus.fail("all_reduce", 2);
  std::atomic<int> by_nccl_itself = 0;
  gpus.run_on_hosts(
      {2, 2},
      [&](World& world) {
        ToyBuffer<float> buffer(gpus, world.rank(), Floats(64, 1.0F));
        try {
          // Long: before it has passed NCCL must have been called.
          world.group().all_reduce(buffer.view(), ReduceOp::sum,
                                   {.timeout = std::chrono::seconds(30)});
          ADD_FAILURE() << "a share has not crossed";
        } catch (const BackendError& error) {
          EXPECT_THAT(error.what(), HasSubstr("the test wants it so"));
          ++by_nccl_itself;
        } catch (const Error&) {
        }
        EXPECT_THROW(world.group().all_reduce(buffer.view()), Error);
      },
      only_this());
  EXPECT_EQ(by_nccl_itself, 1);
}

// One share crosses, that of rank 0, whose fold waits for rank 1 in vain: what it has by then must
// not pass for a sum on the other host, whose ranks lack nothing else.
TEST_P(GpuHierarchy, WhatWasNotFoldedDoesNotPassOnTheOtherHost) {
  ToyGpus gpus(4);
  gpus.hold("abort");
  std::atomic<int> summed = 0;
  std::atomic<int> ended = 0;
  // They outlive the worlds: what was given up may still be on its way.
  std::vector<std::unique_ptr<ToyBuffer<float>>> buffers;
  for (int gpu = 0; gpu < 4; ++gpu)
    buffers.push_back(std::make_unique<ToyBuffer<float>>(gpus, gpu, Floats(1, 1.0F)));
  gpus.run_on_hosts(
      {2, 2},
      [&](World& world) {
        ToyBuffer<float>& buffer = *buffers[static_cast<std::size_t>(world.rank())];
        world.group().all_reduce(buffer.view());
        EXPECT_EQ(buffer.values(), Floats(1, 4.0F));
        // Others may still have steps to take, which an abort would cut short.
        ++summed;
        EXPECT_TRUE(eventually([&] { return summed == 4; }));
        const bool is_first = world.rank() == 0;
        if (world.rank() != 1) {
          EXPECT_THROW(world.group().all_reduce(
                           buffer.view(), ReduceOp::sum,
                           {.timeout = std::chrono::milliseconds(is_first ? 200 : 1500)}),
                       Error)
              << "of rank " << world.rank();
        }
        if (++ended == 4) gpus.release();
        eventually([&] { return ended == 4; });
      },
      only_this());
}

class GpuHierarchyByStaging : public GpuHierarchy {};
INSTANTIATE_TEST_SUITE_P(Only, GpuHierarchyByStaging, testing::Values(by_staging));

TEST_P(GpuHierarchyByStaging, TakesTheLargestFloatsWhichNcclHasNot) {
  ToyGpus gpus(4);
  gpus.run_on_hosts(
      {2, 2},
      [&](World& world) {
        ToyBuffer<float> most(gpus, world.rank(), elements<float>(world.rank(), 77));
        world.group().all_reduce(most.view(), ReduceOp::max);
        EXPECT_EQ(most.values(), elements<float>(3, 77));
        EXPECT_EQ(uses_of(world.group(), by_staging), 1u);
        world.group().barrier();
      },
      only_this());
  EXPECT_THAT(gpus.violations(), IsEmpty());
}

TEST_P(GpuHierarchyByStaging, GraphsCannotHoldIt) {
  ToyGpus gpus(4);
  gpus.run_on_hosts(
      {2, 2},
      [&](World& world) {
        ToyBuffer<float> buffer(gpus, world.rank(), Floats(64, 1.0F));
        void* const stream = gpus.make_stream(world.rank());
        gpus.capture(stream);
        EXPECT_THAT(thrown_by<UnsupportedError>([&] {
                      world.group().all_reduce(buffer.view(), ReduceOp::sum, {.stream = stream});
                    }),
                    HasSubstr("a CUDA graph cannot capture what goes through host memory"));
        gpus.end_capture(stream);
        world.group().barrier();
      },
      only_this());
}

TEST_P(GpuHierarchyByNccl, WhatNcclHasNotIsRefused) {
  ToyGpus gpus(4);
  Config config = only("");
  config.reproducibility = Reproducibility::placement;
  gpus.run_on_hosts(
      {2, 2},
      [&](World& world) {
        ToyBuffer<float> floats(gpus, world.rank(), Floats(4));
        ToyBuffer<std::int32_t> ints(gpus, world.rank(), std::vector<std::int32_t>(4));
        const auto told = [&](const BufferView& view, ReduceOp op, const char* name) {
          return peer_candidate(world.group(), Request::all_reduce(view, view, op), name).reason;
        };
        EXPECT_EQ(told(floats.view(), ReduceOp::max, by_nccl),
                  "NCCL does not specify what its max does with a NaN");
        EXPECT_EQ(told(floats.view(), ReduceOp::max, by_staging), "");
        EXPECT_EQ(told(ints.view(), ReduceOp::avg, by_staging),
                  "there is no kernel for avg of int32");
        EXPECT_EQ(told(floats.view(), ReduceOp::product, by_nccl),
                  "there is no kernel for product of float32");
        EXPECT_THAT(told(floats.view(), ReduceOp::sum, by_nccl),
                    HasSubstr("not reproducible enough: it may take its steps in any order"));
        EXPECT_THAT(told(floats.view(), ReduceOp::sum, by_staging),
                    HasSubstr("not reproducible enough: the order of its steps depends"));
        world.group().barrier();
      },
      config);
}

TEST_P(GpuHierarchyByNccl, WithoutNcclSharesGoThroughTheHost) {
  ToyGpus gpus(4);
  Config config;
  config.path = PathPolicy::parse("cuda_p2p,staged,threads,exchange", "HYMN_PATH");
  gpus.run_on_hosts(
      {2, 2},
      [&](World& world) {
        constexpr std::size_t count = std::size_t{1} << 16;
        ToyBuffer<float> buffer(gpus, world.rank(), Floats(count, 1.0F));
        const Request request = Request::all_reduce(buffer.view(), buffer.view());
        EXPECT_EQ(peer_candidate(world.group(), request, by_nccl).reason,
                  "the group cannot use NCCL");
        EXPECT_EQ(world.group().explain(request).algorithm, by_staging);
        world.group().all_reduce(buffer.view());
        EXPECT_TRUE(buffer.values() == Floats(count, 4.0F));
        world.group().barrier();
      },
      config);
  EXPECT_EQ(gpus.count("init"), 0);
}

}  // namespace
}  // namespace hymn::test
