// Groups on another GPU of each rank than its own: ranks as threads over doubles of the driver and
// of NCCL.
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "collectives/cuda/kernel_image.hpp"
#include "hymn/join.hpp"
#include "tests/unit/gpu_several.hpp"

namespace hymn::test {
namespace {

TEST_F(GpuSeveral, CollectivesAreRight) {
  for (const std::string path : {"nccl", "^nccl"})
    run([this, path](World& world) {
      const int me = world.rank();
      const int gpu = second_of(world);
      ASSERT_EQ(world.gpu(), me);
      ProcessGroup group = on_second(world, {.path = path});
      Buffer sum(gpus, gpu, {me + 1, 10 * (me + 1)});
      Work work = group.all_reduce_async(sum.view());
      EXPECT_EQ(work.path(), path == "nccl" ? "nccl" : "staged");
      work.wait();
      EXPECT_EQ(sum.values(), (Ints{6, 60}));
      Buffer cast(gpus, gpu, {me, 7 * me});
      group.broadcast(cast.view(), 2);
      EXPECT_EQ(cast.values(), (Ints{2, 14}));
      Buffer mine(gpus, gpu, {100 + me});
      Buffer all(gpus, gpu, {-1, -1, -1});
      group.all_gather(mine.view(), all.view());
      EXPECT_EQ(all.values(), (Ints{100, 101, 102}));
      Buffer part(gpus, gpu, {-1});
      group.reduce_scatter(all.view(), part.view());
      EXPECT_EQ(part.values(), Ints{3 * (100 + me)});
      world.group().barrier();
    });
  expect_own_are_unused();
  EXPECT_EQ(gpus.count("init"), team);
  EXPECT_EQ(gpus.count("destroy"), team);
}

TEST_F(GpuSeveral, MessagesAreRight) {
  for (const char* const path : {"nccl", "^nccl"})
    run([this, path](World& world) {
      const int me = world.rank();
      ProcessGroup group = on_second(world, {.path = path});
      Buffer out(gpus, second_of(world), {100 + me});
      Buffer in(gpus, second_of(world), {-1});
      const std::array both{P2POp::send(out.view(), (me + 1) % team),
                            P2POp::recv(in.view(), (me + 2) % team)};
      group.batch_isend_irecv(both).wait();
      EXPECT_EQ(in.values(), Ints{100 + (me + 2) % team});
      if (me == 0) group.send(in.view(), 2);
      if (me == 2) group.recv(out.view(), 0);
      if (me == 2) {
        EXPECT_EQ(out.values(), Ints{102});
      }
      world.group().barrier();
    });
  expect_own_are_unused();
}

TEST_F(GpuSeveral, BarriersTakeTheGpuOfTheGroup) {
  run([this](World& world) {
    const int second = second_of(world);
    for (const char* const path : {"", "^nccl"}) {
      ProcessGroup group = on_second(world, {.path = path});
      group.barrier({second});
      void* const stream = gpus.make_stream(second);
      bool done = false;
      gpus.enqueue(stream, [&done] { done = true; });
      group.barrier({second}, {.stream = stream});
      EXPECT_TRUE(done) << path;
      EXPECT_THAT(thrown_by<UsageError>([&] { group.barrier({world.gpu()}); }),
                  HasSubstr("this rank works on GPU " + std::to_string(second)));
      EXPECT_THAT(thrown_by<UsageError>([&] { world.group().barrier({second}); }),
                  HasSubstr("GroupOptions::gpu"));
      EXPECT_EQ(group.collective_sequence(), 2u);
    }
    world.group().barrier();
  });
}

// Rank 0 holds up its own GPU, rank 1 its second one: each group waits for its own alone, whoever
// was called first.
TEST_F(GpuSeveral, TwoGroupsAreInFlightAtOnce) {
  run([this](World& world) {
    const int me = world.rank();
    const int second = second_of(world);
    ProcessGroup first_group = world.group();
    ProcessGroup second_group = on_second(world);
    for (const bool second_ends_first : {true, false}) {
      Buffer a(gpus, me, {me + 1});
      Buffer b(gpus, second, {100 * (me + 1)});
      void* const on_a = gpus.make_stream(me);
      void* const on_b = gpus.make_stream(second);
      std::function<void()> open;
      if (me == 0) open = gpus.gate(on_a);
      if (me == 1) open = gpus.gate(on_b);
      first_group.all_reduce(a.view(), {}, {.stream = on_a});
      second_group.all_reduce(b.view(), {}, {.stream = on_b});
      const int opens_first = second_ends_first ? 1 : 0;
      void* const ends_first = second_ends_first ? on_b : on_a;
      world.group().barrier();
      EXPECT_EQ(a.values(), Ints{me + 1}) << "rank 0 holds it up";
      EXPECT_EQ(b.values(), Ints{100 * (me + 1)}) << "rank 1 holds it up";
      world.group().barrier();
      if (me == opens_first) open();
      EXPECT_TRUE(gpus.synchronize(ends_first));
      EXPECT_EQ(a.values(), Ints{second_ends_first ? me + 1 : 6});
      EXPECT_EQ(b.values(), Ints{second_ends_first ? 600 : 100 * (me + 1)});
      world.group().barrier();
      if (me == 1 - opens_first) open();
      EXPECT_TRUE(gpus.synchronize(on_a));
      EXPECT_TRUE(gpus.synchronize(on_b));
      EXPECT_EQ(a.values(), Ints{6});
      EXPECT_EQ(b.values(), Ints{600});
      world.group().barrier();
    }
  });
}

// Each GPU is one rank's own, and another's in the second group.
TEST_F(GpuSeveral, RanksMayWorkOnEachOthersGpus) {
  run([this](World& world) {
    const int me = world.rank();
    const int next = (me + 1) % team;
    ProcessGroup own = world.group();
    ProcessGroup shifted = on(world, next);
    std::vector<Work> works;
    Buffer a(gpus, me, {me + 1});
    Buffer b(gpus, next, {10 * (me + 1)});
    for (int i = 0; i < 3; ++i) {
      works.push_back(shifted.all_reduce_async(b.view()));
      works.push_back(own.all_reduce_async(a.view()));
    }
    for (auto work = works.rbegin(); work != works.rend(); ++work) work->wait();
    EXPECT_EQ(a.values(), Ints{54});
    EXPECT_EQ(b.values(), Ints{540});
    own.barrier();
  });
}

// Those that share one GPU, or have none, may name others.
TEST_F(GpuSeveral, NamedOnesCountAndNotTheRanksOwn) {
  gpus.run_on_gpus({"0", "0", "none"}, [this](World& world) {
    const int me = world.rank();
    EXPECT_EQ(world.gpu(), me == 2 ? -1 : 0);
    Buffer mine(gpus, me, {me + 1});
    ProcessGroup group = on(world, me);
    Work work = group.all_reduce_async(mine.view());
    EXPECT_EQ(work.path(), "nccl");
    work.wait();
    EXPECT_EQ(mine.values(), Ints{6});
    EXPECT_NE(group.timeout(), world.group().timeout()) << "all members have a GPU here alone";
    world.group().barrier();
  });
}

TEST_F(GpuSeveral, NanIsFound) {
  if (cuda::kernel_image().empty())
    GTEST_SKIP() << "hymn was built without nvcc: there are no kernels for GPUs";
  run([this](World& world) {
    ProcessGroup group = on_second(world, {.nan_check = true});
    ToyBuffer<float> sum(gpus, second_of(world), {1, std::numeric_limits<float>::quiet_NaN()});
    EXPECT_THAT(thrown_by<UsageError>([&] { group.all_reduce(sum.view()); }),
                HasSubstr("element 1 of the 2 elements of float32"));
    EXPECT_FALSE(group.is_aborted());
    expect_sum(group, world.rank(), second_of(world));
    world.group().barrier();
  });
}

TEST_F(GpuSeveral, HalvesAreReducedInFloat32) {
  if (cuda::kernel_image().empty())
    GTEST_SKIP() << "hymn was built without nvcc: there are no kernels for GPUs";
  run([this](World& world) {
    const float given = world.rank() == 0 ? 1.0f : 0x1p-8f;  // by themselves they are lost in a 1
    ProcessGroup group = on_second(world, {.nccl = {.reduce_in_float32 = true}});
    ToyBuffer<bfloat16> sum(gpus, second_of(world), {bfloat16(given)});
    Work work = group.all_reduce_async(sum.view());
    EXPECT_EQ(work.algorithm(), "all_reduce_float32");
    work.wait();
    EXPECT_EQ(sum.values(), std::vector<bfloat16>{bfloat16(1 + 0x1p-7f)});
    world.group().barrier();
  });
}

TEST_F(GpuSeveral, WhoHasRunOutShadowsThere) {
  run([this](World& world) {
    ProcessGroup group = on_second(world);
    const int me = world.rank();
    Join::shadow_all({group}, [&] {
      for (int i = 0; i <= me; ++i) {
        Buffer sum(gpus, second_of(world), {1, 10});
        group.all_reduce(sum.view());
        EXPECT_EQ(sum.values(), (Ints{team - i, 10 * (team - i)}));
        void* const stream = gpus.make_stream(second_of(world));
        group.barrier({.stream = stream});
      }
    });
    world.group().barrier();
  });
  expect_own_are_unused();
  EXPECT_TRUE(eventually([this] { return gpus.open_allocations() == 0; }));
}

TEST_F(GpuSeveral, BuffersAreRegisteredThere) {
  run([this](World& world) {
    ProcessGroup group = on_second(world);
    Buffer sum(gpus, second_of(world), {world.rank() + 1});
    Buffer elsewhere(gpus, world.gpu(), {1});
    RegisteredBuffer known = group.register_buffer(sum.data(), 4);
    EXPECT_TRUE(known.is_registered());
    group.all_reduce(sum.view());
    EXPECT_EQ(sum.values(), Ints{6});
    EXPECT_THAT(thrown_by<UsageError>([&] { (void)group.register_buffer(elsewhere.data(), 4); }),
                HasSubstr("is not in the memory of GPU " + std::to_string(second_of(world))));
    known.release();
    world.group().barrier();
  });
}

TEST_F(GpuSeveral, WhatAGroupShrinksToStaysThere) {
  run([this](World& world) {
    ProcessGroup group = on_second(world).shrink();
    expect_sum(group, world.rank(), second_of(world));
    world.group().barrier();
  });
  expect_own_are_unused();
}

}  // namespace
}  // namespace hymn::test
