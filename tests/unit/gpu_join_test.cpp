// Joins of calls on the memory of GPUs: ranks that have run out make them beside the others, in the
// memory of their own GPUs. Ranks as threads over doubles of the driver and of NCCL.
#include <array>

#include "hymn/join.hpp"
#include "tests/unit/toy_gpu_test.hpp"

namespace hymn::test {
namespace {

class GpuJoin : public ToyGpuTest {};

TEST_F(GpuJoin, WhoHasRunOutGivesIdentities) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    const int inputs = me == 0 ? 2 : 5;
    Join::shadow_all({world.group()}, [&] {
      for (int i = 0; i < inputs; ++i) {
        const int active = i < 2 ? 2 : 1;
        Buffer sum(gpus, me, {1, 10});
        world.group().all_reduce(sum.view());
        EXPECT_EQ(sum.values(), (Ints{active, 10 * active}));
        Buffer least(gpus, me, {7 + me});
        world.group().all_reduce(least.view(), ReduceOp::min);
        EXPECT_EQ(least.values(), Ints{active == 2 ? 7 : 8});
        Buffer mine(gpus, me, {100 + me});
        Buffer all(gpus, me, {-1, -1});
        world.group().all_gather(mine.view(), all.view());
        EXPECT_EQ(all.values(), (Ints{active == 2 ? 100 : 0, 101}));
        Buffer cast(gpus, me, {me});
        world.group().broadcast(cast.view(), 1);
        EXPECT_EQ(cast.values(), Ints{1});
        // What NCCL has not.
        Buffer bits(gpus, me, {1 << me});
        world.group().all_reduce(bits.view(), ReduceOp::bor);
        EXPECT_EQ(bits.values(), Ints{active == 2 ? 3 : 2});
      }
    });
    world.group().barrier();
  });
  EXPECT_EQ(gpus.count("all_reduce"), 20) << "two in each of five iterations, on both ranks";
  EXPECT_TRUE(eventually([this] { return gpus.open_allocations() == 0; }));
}

TEST_F(GpuJoin, BarriersOnStreamsAndHostMemoryBetween) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    void* const stream = gpus.make_stream(me);
    Join::shadow_all({world.group()}, [&] {
      for (int i = 0; me == 1 && i < 3; ++i) {
        world.group().barrier({.stream = stream});
        std::int64_t host = 5;
        world.group().all_reduce(view_of(host));
        EXPECT_EQ(host, 5);
      }
    });
    EXPECT_TRUE(gpus.synchronize(stream));
    world.group().barrier();
  });
}

TEST_F(GpuJoin, WhatWasCoalescedIsRefused) {
  std::string text = "nothing was thrown";
  try {
    gpus.run([&](World& world) {
      const int me = world.rank();
      Buffer a(gpus, me, {1});
      Buffer b(gpus, me, {1});
      const std::array<BufferView, 2> views{a.view(), b.view()};
      Join::shadow_all({world.group()}, [&] {
        if (me == 1) world.group().all_reduce_coalesced(views);
      });
    });
  } catch (const RanksFailed& failed) {
    text = failed.what();
  }
  EXPECT_THAT(text, HasSubstr("coalesced calls on GPUs are not made beside others"));
}

}  // namespace
}  // namespace hymn::test
