// Groups on GPUs: how calls on buffers in the memory of GPUs reach NCCL, and what becomes of NCCL's
// communicators, with ranks as threads over doubles of the driver and of NCCL (toy_gpus.hpp).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "hymn/hymn.hpp"
#include "tests/unit/toy_gpus.hpp"

namespace hymn::test {
namespace {

using ::testing::IsEmpty;

using Ints = std::vector<std::int32_t>;
using Buffer = ToyBuffer<std::int32_t>;

class GpuGroups : public testing::TestWithParam<int> {
 protected:
  ~GpuGroups() override { EXPECT_THAT(gpus.violations(), IsEmpty()); }
  int size() const { return GetParam(); }
  std::vector<int> everybody() const {
    std::vector<int> all(static_cast<std::size_t>(size()));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  ToyGpus gpus{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Ranks, GpuGroups, testing::Values(1, 2, 3));

TEST_P(GpuGroups, AllReduceGoesThroughNccl) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    Buffer buffer(gpus, me, {me + 1, 10 * (me + 1)});
    Buffer out(gpus, me, {0, 0});
    ProcessGroup group = world.group();
    group.all_reduce(buffer.view(), out.view());
    const int sum = size() * (size() + 1) / 2;
    EXPECT_EQ(out.values(), (Ints{sum, 10 * sum}));
    Work work = group.all_reduce_async(buffer.view());
    EXPECT_EQ(work.path(), "nccl");
    EXPECT_EQ(work.algorithm(), "all_reduce_nccl");
    work.wait();
    EXPECT_EQ(buffer.values(), (Ints{sum, 10 * sum}));
    // What is in host memory never goes there.
    std::int32_t host = me + 1;
    group.all_reduce(view_of(host));
    EXPECT_EQ(host, sum);
  });
  EXPECT_EQ(gpus.count("init"), size());
  EXPECT_EQ(gpus.count("all_reduce"), 2 * size());
  EXPECT_EQ(gpus.count("destroy"), size());
  EXPECT_EQ(gpus.count("abort"), 0);
}

TEST_P(GpuGroups, EveryCollectiveIsRight) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    const int n = size();
    ProcessGroup group = world.group();
    const auto each = [n](auto value_of) {
      Ints values;
      for (int i = 0; i < n; ++i) values.push_back(value_of(i));
      return values;
    };
    const int root = n - 1;

    Buffer cast(gpus, me, {me, me});
    group.broadcast(cast.view(), root);
    EXPECT_EQ(cast.values(), (Ints{root, root}));

    Buffer mine(gpus, me, {100 + me});
    Buffer all(gpus, me, Ints(static_cast<std::size_t>(n)));
    group.all_gather(mine.view(), all.view());
    EXPECT_EQ(all.values(), each([](int i) { return 100 + i; }));

    Buffer gathered(gpus, me, Ints(static_cast<std::size_t>(n), -1));
    group.gather(mine.view(), gathered.view(), root);
    if (me == root) {
      EXPECT_EQ(gathered.values(), each([](int i) { return 100 + i; }));
    }

    Buffer spread(gpus, me, each([](int i) { return 7 * i; }));
    Buffer part(gpus, me, {-1});
    group.scatter(spread.view(), part.view(), root);
    EXPECT_EQ(part.values(), Ints{7 * me});

    Buffer product(gpus, me, {2});
    group.reduce(product.view(), root, ReduceOp::product);
    if (me == root) {
      EXPECT_EQ(product.values(), Ints{1 << n});
    }

    Buffer blocks(gpus, me, each([me](int i) { return 10 * me + i; }));
    Buffer swapped(gpus, me, Ints(static_cast<std::size_t>(n)));
    group.all_to_all(blocks.view(), swapped.view());
    EXPECT_EQ(swapped.values(), each([me](int i) { return 10 * i + me; }));

    group.reduce_scatter(blocks.view(), part.view());
    EXPECT_EQ(part.values(), Ints{10 * (n * (n - 1) / 2) + n * me});

    ToyBuffer<double> scaled(gpus, me, {1.0});
    group.all_reduce(scaled.view(), ReduceOp::premul_sum(me + 1));
    EXPECT_EQ(scaled.values(), std::vector<double>{n * (n + 1) / 2.0});
    group.barrier();
  });
}

// The output is the input's own block, as the host's paths take it; what else overlaps is refused.
TEST_P(GpuGroups, AReduceScatterMayBeInPlace) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    const int n = size();
    const auto my = static_cast<std::size_t>(me);
    const int ranks_sum = n * (n - 1) / 2;
    std::vector<int> all;
    for (int i = 0; i < n; ++i) all.push_back(i);
    for (const char* const path : {"nccl", "^nccl"}) {
      ProcessGroup group = world.new_group(all, {.path = path});
      Ints given;
      for (int i = 0; i < 2 * n; ++i) given.push_back(100 * me + i);
      Buffer equal(gpus, me, given);
      const BufferView own = equal.view().slice(2 * my, 2);
      group.reduce_scatter(equal.view(), own);
      EXPECT_EQ(equal.values()[2 * my], 100 * ranks_sum + n * 2 * me) << path;
      EXPECT_EQ(equal.values()[2 * my + 1], 100 * ranks_sum + n * (2 * me + 1)) << path;

      // Rank i gets i + 1 elements: each block is a reduce of its own.
      std::vector<std::size_t> counts;
      for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) counts.push_back(i + 1);
      const std::size_t before = my * (my + 1) / 2;
      Buffer uneven(gpus, me, Ints(static_cast<std::size_t>(n * (n + 1) / 2), me + 1));
      group.reduce_scatter(uneven.view(), counts, uneven.view().slice(before, my + 1));
      EXPECT_EQ(uneven.values()[before], ranks_sum + n) << path;
      EXPECT_EQ(uneven.values()[before + my], ranks_sum + n) << path;

      if (n == 1) continue;
      const std::uint64_t calls = group.collective_sequence();
      const BufferView others = equal.view().slice(2 * ((my + 1) % static_cast<std::size_t>(n)), 2);
      EXPECT_THROW(group.reduce_scatter(equal.view(), others), UsageError) << path;
      EXPECT_EQ(group.collective_sequence(), calls) << "nothing was sent";
    }
    world.group().barrier();
  });
}

TEST_P(GpuGroups, UnevenBlocksAndListsAreRight) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    const int n = size();
    ProcessGroup group = world.group();
    // Rank i gives i elements: the first none.
    std::vector<std::size_t> counts;
    Ints expected;
    for (int i = 0; i < n; ++i) {
      counts.push_back(static_cast<std::size_t>(i));
      expected.insert(expected.end(), static_cast<std::size_t>(i), 10 * i);
    }
    Buffer mine(gpus, me, Ints(static_cast<std::size_t>(me), 10 * me));
    Buffer all(gpus, me, Ints(expected.size(), -1));
    if (n > 1) group.all_gather(mine.view(), all.view(), counts);
    EXPECT_EQ(all.values(), expected);

    std::vector<std::unique_ptr<Buffer>> owned;
    std::vector<BufferView> list;
    for (int i = 0; i < n; ++i) {
      owned.push_back(std::make_unique<Buffer>(gpus, me, Ints{-1}));
      list.push_back(owned.back()->view());
    }
    Buffer one(gpus, me, {me * me});
    group.all_gather(one.view(), list);
    for (int i = 0; i < n; ++i)
      EXPECT_EQ(owned[static_cast<std::size_t>(i)]->values(), Ints{i * i});
  });
}

TEST_P(GpuGroups, NeighboursSendToEachOtherAtTheSameTime) {
  if (size() == 1) return;
  gpus.run([this](World& world) {
    const int me = world.rank();
    const int next = (me + 1) % size();
    const int before = (me + size() - 1) % size();
    Buffer out(gpus, me, {me});
    Buffer in(gpus, me, {-1});
    ProcessGroup group = world.group();
    // Later ones find the communicator of the pair: they are launched together all the same.
    for (int round = 0; round < 3; ++round) {
      Work sent = group.isend(out.view(), next);
      Work received = group.irecv(in.view(), before);
      received.wait();
      sent.wait();
      EXPECT_EQ(in.values(), Ints{before});
      EXPECT_EQ(received.status().source, before);
      EXPECT_EQ(received.status().count, 1u);
    }

    Buffer again(gpus, me, {-1});
    const std::vector<P2POp> both = {P2POp::send(in.view(), before),
                                     P2POp::recv(again.view(), next)};
    group.batch_isend_irecv(both).wait();
    EXPECT_EQ(again.values(), Ints{me}) << "what was given to the next rank has come back";
  });
  // Of more ranks each neighbour has a communicator of its own.
  if (size() == 2) {
    EXPECT_EQ(gpus.count("group"), 4 * 2) << "alone a message would wait for what comes after it";
  }
}

TEST_P(GpuGroups, EmptyFacesGoTheWayOfTheOthers) {
  if (size() < 2) GTEST_SKIP() << "a rank does not copy its own faces there";
  gpus.run([this](World& world) {
    const int me = world.rank();
    const Mesh ring(world, {static_cast<std::size_t>(size())});
    Buffer face(gpus, me, {me, 10 * me});
    Buffer come(gpus, me, {-1, -1});
    const Halo halo{.to_previous = ConstBufferView(nullptr, 0, DataType::int32),
                    .from_previous = come.view(),
                    .to_next = face.view(),
                    .from_next = BufferView(nullptr, 0, DataType::int32),
                    .periodic = true};
    Work work = ring.exchange_halos_async({&halo, 1});
    EXPECT_EQ(work.path(), "nccl");  // of the first of its messages, which is empty
    work.wait();
    const int previous = (me + size() - 1) % size();
    EXPECT_EQ(come.values(), (Ints{previous, 10 * previous}));
  });
}

TEST_P(GpuGroups, CommunicatorsAreMadeAtTheFirstUse) {
  gpus.run([this](World& world) {
    std::int32_t host = 1;
    world.group().all_reduce(view_of(host));
    world.group().barrier();
    EXPECT_EQ(gpus.count("init"), 0);
    world.group().barrier();
  });
  EXPECT_EQ(gpus.count("init"), 0);
}

Config with(NcclInit init) {
  Config config;
  config.nccl.init = init;
  return config;
}

TEST_P(GpuGroups, EagerOnesAreMadeWithTheGroup) {
  gpus.run(
      [this](World& world) {
        EXPECT_EQ(gpus.count("init"), size()) << "NCCL returned only when all had come";
        world.group().barrier();
      },
      {}, with(NcclInit::eager));
  gpus.run(
      [this](World& world) {
        Buffer buffer(gpus, world.rank(), {1});
        world.group().all_reduce(buffer.view());
        EXPECT_EQ(buffer.values(), Ints{size()});
      },
      {}, with(NcclInit::background));
  EXPECT_EQ(gpus.count("init"), 2 * size());
}

TEST_P(GpuGroups, SettingsReachNccl) {
  Config config;
  config.nccl = {.min_ctas = 2, .max_ctas = 8, .net_name = "Socket"};
  config.high_priority_stream = true;
  gpus.run(
      [this](World& world) {
        Buffer buffer(gpus, world.rank(), {1});
        world.group().all_reduce(buffer.view());
        std::vector<int> all;
        for (int i = 0; i < size(); ++i) all.push_back(i);
        ProcessGroup other =
            world.new_group(all, {.path = "nccl", .nccl = {.max_ctas = 4, .cga_size = 2}});
        other.all_reduce(buffer.view());
      },
      {}, config);
  const nccl_api::Config last = gpus.last_config();
  EXPECT_EQ(last.min_ctas, 2);
  EXPECT_EQ(last.max_ctas, 4) << "the group's own";
  EXPECT_EQ(last.cga_cluster_size, 2);
  EXPECT_EQ(last.blocking, 0);
  EXPECT_EQ(gpus.streams_of_high_priority(), size());
}

// --- Splits

TEST_P(GpuGroups, test_comm_split_optimization) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    std::vector<int> all;
    for (int i = 0; i < size(); ++i) all.push_back(i);
    Buffer buffer(gpus, me, {1});
    ProcessGroup before = world.new_group(all);
    ProcessGroup unused = world.new_group(all);
    before.all_reduce(buffer.view());
    EXPECT_EQ(world.group().comm_split_count(), 0u) << "the world's had not been used";
    world.group().all_reduce(buffer.view());
    ProcessGroup after = world.new_group(all);
    EXPECT_EQ(world.group().comm_split_count(), 0u);
    after.all_reduce(buffer.view());
    EXPECT_EQ(world.group().comm_split_count(), 1u);
    after.all_reduce(buffer.view());
    EXPECT_EQ(world.group().comm_split_count(), 1u);
    EXPECT_EQ(buffer.values(), Ints{size() * size() * size() * size()});
    unused.broadcast(buffer.view(), 0);
    EXPECT_EQ(world.group().comm_split_count(), 2u) << "the world's is used before its own";
  });
  EXPECT_EQ(gpus.count("init"), 2 * size());
  EXPECT_EQ(gpus.count("split"), 2 * size());
}

TEST_P(GpuGroups, EagerSubgroupsAreSplitByAllRanks) {
  if (size() < 2) return;
  gpus.run(
      [this](World& world) {
        const int me = world.rank();
        // Something is in flight on the parent, which NCCL must not split then.
        Buffer pending(gpus, me, {1});
        Work work = world.group().all_reduce_async(pending.view());
        ProcessGroup pair = world.new_group({0, size() - 1});
        EXPECT_EQ(world.group().comm_split_count(), 1u) << "on ranks outside, too";
        if (pair.is_member()) {
          Buffer buffer(gpus, me, {me + 1});
          pair.all_reduce(buffer.view());
          EXPECT_EQ(buffer.values(), Ints{1 + size()});
          EXPECT_EQ(pair.comm_split_count(), 0u);
        }
        work.wait();
        EXPECT_EQ(pending.values(), Ints{size()});
        world.group().barrier();
      },
      {}, with(NcclInit::eager));
  EXPECT_EQ(gpus.count("init"), size());
  EXPECT_EQ(gpus.count("split"), size());
}

TEST_P(GpuGroups, test_comm_split_subgroup) {
  gpus.run(
      [this](World& world) {
        ProcessGroup first = world.new_group({0});
        EXPECT_EQ(world.group().comm_split_count(), 1u) << "at once, and on ranks outside, too";
        Buffer buffer(gpus, world.rank(), {world.rank()});
        if (first.is_member()) first.broadcast(buffer.view(), 0);
        EXPECT_EQ(world.group().comm_split_count(), 1u);
        EXPECT_EQ(buffer.values(), Ints{world.rank()});
        world.group().barrier();
      },
      {}, with(NcclInit::eager));
  EXPECT_EQ(gpus.count("split"), size());
}

TEST_P(GpuGroups, TwinsOfAnEagerWorldAreTwoSplits) {
  gpus.run(
      [this](World& world) {
        ProcessGroup used = world.new_group(everybody());
        ProcessGroup never_used = world.new_group(everybody());
        EXPECT_EQ(world.group().comm_split_count(), 2u);
        Buffer buffer(gpus, world.rank(), {1});
        used.all_reduce(buffer.view());
        EXPECT_EQ(buffer.values(), Ints{size()});
        EXPECT_EQ(world.group().comm_split_count(), 2u);
        world.group().barrier();
      },
      {}, with(NcclInit::eager));
  EXPECT_EQ(gpus.count("split"), 2 * size());
}

TEST_P(GpuGroups, test_non_blocking_init) {
  gpus.run([this](World& world) {
    EXPECT_EQ(world.group().comm_split_count(), 0u);
    Buffer buffer(gpus, world.rank(), {world.rank() + 1});
    world.group().all_reduce_async(buffer.view()).wait();
    ProcessGroup group = world.new_group(everybody());
    EXPECT_EQ(world.group().comm_split_count(), 0u);
    group.broadcast_async(buffer.view(), 0).wait();
    EXPECT_EQ(world.group().comm_split_count(), 1u);
  });
}

// The world's communicator is begun with the world, but nobody waits for it before it is used.
TEST_P(GpuGroups, test_non_blocking_with_eager_init) {
  for (const bool uses_world : {true, false}) {
    const int splits = gpus.count("split");
    gpus.run(
        [&, this](World& world) {
          EXPECT_EQ(world.group().comm_split_count(), 0u);
          Buffer buffer(gpus, world.rank(), {world.rank()});
          if (uses_world) world.group().all_reduce_async(buffer.view()).wait();
          ProcessGroup group = world.new_group(everybody());
          ProcessGroup never_used = world.new_group(everybody());
          ProcessGroup part = world.new_group({0});
          EXPECT_EQ(world.group().comm_split_count(), 0u) << "after creation";
          group.broadcast_async(buffer.view(), 0).wait();
          EXPECT_EQ(world.group().comm_split_count(), 1u) << "after the first use";
          EXPECT_EQ(buffer.values(), Ints{uses_world ? size() * (size() - 1) / 2 : 0});
          if (part.is_member() && size() > 1) part.all_reduce(buffer.view());
          EXPECT_EQ(world.group().comm_split_count(), 1u) << "others have their own";
          world.group().barrier();
        },
        {}, with(NcclInit::background));
    EXPECT_EQ(gpus.count("split") - splits, size());
  }
}

TEST_P(GpuGroups, TwinsMayBeSplitWhenTheGroupOfAllHasEnded) {
  for (const NcclInit init : {NcclInit::background, NcclInit::lazy}) {
    const int splits = gpus.count("split");
    gpus.run(
        [this](World& world) {
          Buffer buffer(gpus, world.rank(), {1});
          world.group().all_reduce(buffer.view());
          ProcessGroup twin = world.new_group(everybody());
          world.group().destroy();
          twin.all_reduce(buffer.view());
          EXPECT_EQ(buffer.values(), Ints{size() * size()});
        },
        {}, with(init));
    EXPECT_EQ(gpus.count("split") - splits, size());
  }
}

TEST_P(GpuGroups, TwinsOfAnAbortedGroupOfAllAreAborted) {
  gpus.run(
      [this](World& world) {
        Buffer buffer(gpus, world.rank(), {1});
        ProcessGroup twin = world.new_group(everybody());
        ProcessGroup other = world.new_group(everybody(), {.path = "^nccl"});
        other.barrier();
        world.group().abort("the test wants it");
        world.group().destroy();
        const auto begin = std::chrono::steady_clock::now();
        EXPECT_THROW(twin.all_reduce(buffer.view()), AbortedError);
        // Not as long as news of the group itself would be waited for.
        EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
        other.barrier();
      },
      {}, with(NcclInit::background));
}

// Nothing tells it to wait for the world's, which may never be made.
TEST_P(GpuGroups, BackgroundGroupsOfALazyWorldBeginWithIt) {
  gpus.run([this](World& world) {
    ProcessGroup group = world.new_group(everybody(), {.nccl = {.init = NcclInit::background}});
    Buffer buffer(gpus, world.rank(), {1});
    world.group().all_reduce(buffer.view());
    group.all_reduce(buffer.view());
    EXPECT_EQ(world.group().comm_split_count(), 0u);
  });
  EXPECT_EQ(gpus.count("init"), 2 * size());
}

// What NCCL has been asked for, but has not settled, is in flight before it is on the stream.
TEST_P(GpuGroups, ASplitWaitsForWhatIsBeingLaunched) {
  gpus.run(
      [this](World& world) {
        Buffer pending(gpus, world.rank(), {1});
        ProcessGroup group = world.group();
        group.barrier();
        gpus.hold("settling");
        gpus.hold("collective");
        Work work = group.all_reduce_async(pending.view());
        group.barrier();
        if (world.rank() == 0) gpus.release();
        world.new_group({0});
        work.wait();
        EXPECT_EQ(pending.values(), Ints{size()});
        group.barrier();
      },
      {}, with(NcclInit::eager));
  EXPECT_EQ(gpus.count("split"), size());
}

TEST_P(GpuGroups, LazySubgroupsHaveTheirOwn) {
  if (size() < 3) return;
  gpus.run([this](World& world) {
    Buffer buffer(gpus, world.rank(), {1});
    world.group().all_reduce(buffer.view());
    ProcessGroup pair = world.new_group({0, 1});
    if (pair.is_member()) pair.all_reduce(buffer.view());
    EXPECT_EQ(world.group().comm_split_count(), 0u);
  });
  EXPECT_EQ(gpus.count("init"), size() + 2);
  EXPECT_EQ(gpus.count("split"), 0);
}

// Ranks outside would have to take part in a split of what all have.
TEST_P(GpuGroups, WhatMembersMakeAloneIsNeverSplit) {
  if (size() < 2) return;
  for (const NcclInit init : {NcclInit::lazy, NcclInit::eager}) {
    const int inits = gpus.count("init");
    gpus.run(
        [this](World& world) {
          Buffer buffer(gpus, world.rank(), {1});
          world.group().all_reduce(buffer.view());
          std::vector<int> all(static_cast<std::size_t>(size()));
          std::iota(all.begin(), all.end(), 0);
          world.new_group(all, {.local_sync = true}).all_reduce(buffer.view());
          world.new_group(all, {.tag = "all"}).all_reduce(buffer.view());
          if (world.rank() < 2)
            world.new_group({0, 1}, {.local_sync = true}).all_reduce(buffer.view());
          EXPECT_EQ(world.group().comm_split_count(), 0u);
        },
        {}, with(init));
    EXPECT_EQ(gpus.count("init"), inits + 3 * size() + 2);
  }
  EXPECT_EQ(gpus.count("split"), 0);
}

// --- Ends

/// Makes two groups of all ranks, uses so many of them, and leaves all to the end of the world.
void leave_twins(ToyGpus& gpus, World& world, std::size_t used) {
  Buffer buffer(gpus, world.rank(), {1});
  world.group().all_reduce_async(buffer.view()).wait();
  std::vector<int> all(static_cast<std::size_t>(world.size()));
  std::iota(all.begin(), all.end(), 0);
  std::vector<ProcessGroup> twins = {world.new_group(all), world.new_group(all)};
  for (std::size_t i = 2 - used; i < 2; ++i) twins[i].all_reduce_async(buffer.view()).wait();
  EXPECT_EQ(world.group().comm_split_count(), used);
  world.destroy();
  for (ProcessGroup& twin : twins) EXPECT_THROW(twin.all_reduce(buffer.view()), UsageError);
}

TEST_P(GpuGroups, test_abort_in_destroy_multi_pgs) {
  gpus.run([this](World& world) { leave_twins(gpus, world, 2); });
  EXPECT_EQ(gpus.count("destroy"), 3 * size());
}

TEST_P(GpuGroups, test_abort_in_destroy_mixed_empty_pgs) {
  gpus.run([this](World& world) { leave_twins(gpus, world, 1); });
  EXPECT_EQ(gpus.count("destroy"), 2 * size());
}

// --- Order

TEST_P(GpuGroups, LaunchesKeepTheOrderOfTheCalls) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    std::vector<int> all;
    for (int i = 0; i < size(); ++i) all.push_back(i);
    ProcessGroup first = world.new_group(all);
    ProcessGroup second = world.new_group(all);
    Buffer a(gpus, me, {1});
    Buffer b(gpus, me, {1});
    second.all_reduce(b.view());  // its communicator is there, the first one's is not
    Work one = first.all_reduce_async(a.view());
    Work two = second.all_reduce_async(b.view());
    two.wait();
    one.wait();
  });
  for (int gpu = 0; gpu < size(); ++gpu) {
    std::vector<std::string> reductions;
    for (const std::string& call : gpus.calls(gpu))
      if (call.starts_with("all_reduce")) reductions.push_back(call);
    ASSERT_EQ(reductions.size(), 3u);
    EXPECT_EQ(reductions[0], reductions[2]);
    EXPECT_NE(reductions[0], reductions[1]) << "a later call has overtaken one before it";
  }
}

}  // namespace
}  // namespace hymn::test
