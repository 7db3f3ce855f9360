// Groups on several GPUs of each rank: what is refused, from which communicator NCCL's are made,
// and how they end. Ranks as threads over doubles of the driver and of NCCL.
#include <array>
#include <optional>
#include <vector>

#include "collectives/cuda/kernel_image.hpp"
#include "runtime/c_api/c_api.hpp"
#include "tests/unit/gpu_several.hpp"

namespace hymn::test {
namespace {

using GpuSeveralEnds = GpuSeveral;

TEST_F(GpuSeveralEnds, AWrongNumberIsToldToAll) {
  for (const int wrong : {6, -1})
    run([this, wrong](World& world) {
      const int me = world.rank();
      const std::string text = thrown_by<UsageError>(
          [&] { on(world, me == 1 ? std::optional(wrong) : second_of(world)); });
      EXPECT_THAT(text, HasSubstr("GroupOptions::gpu is " + std::to_string(wrong) +
                                  " on rank 1, which sees 6 GPUs"));
      EXPECT_THAT(text, HasSubstr("remedy: give the number of a visible GPU"));
      // One that names none hears of it, too; and of two the first is told.
      EXPECT_THAT(
          thrown_by<UsageError>([&] { on(world, me == 0 ? std::nullopt : std::optional(me * 9)); }),
          HasSubstr("GroupOptions::gpu is 9 on rank 1"));
      ProcessGroup group = on_second(world);
      expect_sum(group, me, second_of(world));
      expect_sum(world.group(), me, me);
    });
}

TEST_F(GpuSeveralEnds, NamedBySomeAloneThereIsANewCommunicator) {
  run([this](World& world) {
    const int me = world.rank();
    expect_sum(world.group(), me, me);
    world.group().barrier();
    EXPECT_EQ(gpus.count("init"), team);
    // Rank 0 on its own; then all on their own, though one of them says so.
    ProcessGroup mixed = on(world, me == 0 ? std::nullopt : std::optional(second_of(world)));
    expect_sum(mixed, me, me == 0 ? 0 : second_of(world));
    ProcessGroup said = on(world, me == 1 ? std::optional(1) : std::nullopt);
    expect_sum(said, me, me);
    EXPECT_EQ(world.group().comm_split_count(), 0u);
    ProcessGroup twin = world.new_group({0, 1, 2});
    expect_sum(twin, me, me);
    EXPECT_EQ(world.group().comm_split_count(), 1u);
    world.group().barrier();
  });
  EXPECT_EQ(gpus.count("init"), 3 * team);
  EXPECT_EQ(gpus.count("split"), team);
}

// Ranks outside take part in the splits of an eager world, whatever GPUs the members name.
TEST_F(GpuSeveralEnds, InAnEagerWorldRanksOutsideDoNotHang) {
  Config config;
  config.nccl.init = NcclInit::eager;
  run(
      [this](World& world) {
        const int me = world.rank();
        EXPECT_EQ(gpus.count("init"), team);
        ProcessGroup pair =
            world.new_group({0, 1}, {.gpu = me == 2 ? std::nullopt : std::optional(4 + me)});
        EXPECT_EQ(world.group().comm_split_count(), 1u);
        if (me < 2) {
          Buffer sum(gpus, 4 + me, {me + 1});
          pair.all_reduce(sum.view());
          EXPECT_EQ(sum.values(), Ints{3});
          EXPECT_THAT(thrown_by<UsageError>([&] { world.new_group({0, 1}, {.gpu = 6 + me}); }),
                      HasSubstr("GroupOptions::gpu is 6 on rank 0"));
          ProcessGroup same = world.new_group({0, 1}, {.gpu = 5});
          Buffer beside(gpus, 5, {me + 1});
          same.all_reduce(beside.view());
          EXPECT_EQ(beside.values(), Ints{3});
        } else {
          world.new_group({0, 1});
          world.new_group({0, 1});
        }
        EXPECT_EQ(world.group().comm_split_count(), 3u);
        expect_sum(world.group(), me, me);
      },
      config);
  EXPECT_EQ(gpus.count("init"), team + 2);
}

TEST_F(GpuSeveralEnds, OneGpuForTwoRanksIsStaged) {
  run([this](World& world) {
    const int me = world.rank();
    const int gpu = me == 0 ? 5 : 4;
    ProcessGroup group = on(world, gpu);
    Buffer sum(gpus, gpu, {me + 1});
    const Explanation told = group.explain(Request::all_reduce(sum.view(), sum.view()));
    EXPECT_EQ(told.path, "staged");
    EXPECT_THAT(reason_of(told, "nccl"), HasSubstr("2 ranks share one GPU, which NCCL refuses"));
    expect_sum(group, me, gpu);
    EXPECT_THAT(thrown_by<ConfigError>([&] { on(world, gpu, {.path = "nccl"}); }),
                HasSubstr("2 ranks share one GPU, which NCCL refuses"));
    world.group().barrier();
  });
  EXPECT_EQ(gpus.count("init"), 0);
}

// Two ranks on each of two hosts, in an order in which hosts change from member to member.
TEST_F(GpuSeveralEnds, EachHostHasGpusOfItsOwn) {
  gpus.run_on_hosts({2, 2}, [this](World& world) {
    const int me = world.rank();
    const int other = me ^ 1;
    ProcessGroup group = world.new_group({0, 2, 1, 3}, {.gpu = other});
    Buffer sum(gpus, other, {me + 1});
    EXPECT_EQ(group.explain(Request::all_reduce(sum.view(), sum.view())).path, "nccl");
    group.all_reduce(sum.view());
    EXPECT_EQ(sum.values(), Ints{10});
    // Of the second host both name one.
    const int same = me < 2 ? other : 3;
    ProcessGroup staged = world.new_group({0, 2, 1, 3}, {.gpu = same});
    Buffer product(gpus, same, {me + 1});
    EXPECT_EQ(staged.explain(Request::all_reduce(product.view(), product.view())).path, "staged");
    staged.all_reduce(product.view(), ReduceOp::product);
    EXPECT_EQ(product.values(), Ints{24});
    EXPECT_THAT(
        thrown_by<UsageError>([&] { world.new_group({0, 1, 2, 3}, {.gpu = me == 0 ? 2 : me}); }),
        HasSubstr("GroupOptions::gpu is 2 on rank 0, which is none of the 2 GPUs that its host"));
    world.group().barrier();
  });
}

TEST_F(GpuSeveralEnds, PeerMemoryIsForTheRanksOwn) {
  run([this](World& world) {
    ProcessGroup group = on_second(world, {.path = "cuda_p2p,nccl"});
    Buffer sum(gpus, second_of(world), {1});
    const Explanation told = group.explain(Request::all_reduce(sum.view(), sum.view()));
    EXPECT_EQ(told.path, "nccl");
    EXPECT_THAT(reason_of(told, "cuda_p2p"),
                HasSubstr("rank 0 names GPU 3, and peer memory serves"));
    ProcessGroup same = on(world, world.rank(), {.path = "cuda_p2p"});
    if (!cuda::kernel_image().empty()) expect_sum(same, world.rank(), world.rank());
    world.group().barrier();
  });
}

TEST_F(GpuSeveralEnds, BuffersAndStreamsOfAnotherGpuAreRefused) {
  run([this](World& world) {
    const int me = world.rank();
    const int second = second_of(world);
    ProcessGroup group = on_second(world);
    Buffer first_buffer(gpus, me, {me + 1});
    Buffer second_buffer(gpus, second, {me + 1});
    const auto refuses = [](ProcessGroup& by, Buffer& buffer, int wrong, int right) {
      const std::string text = thrown_by<UsageError>([&] { by.all_reduce(buffer.view()); });
      EXPECT_THAT(text,
                  HasSubstr("is in the memory of GPU " + std::to_string(wrong) +
                            ", but in this group this rank works on GPU " + std::to_string(right)));
      EXPECT_THAT(text, HasSubstr("make a group for that GPU: GroupOptions::gpu = " +
                                  std::to_string(wrong)));
    };
    refuses(group, first_buffer, me, second);
    refuses(world.group(), second_buffer, second, me);
    EXPECT_THAT(
        thrown_by<UsageError>([&] { group.all_reduce(second_buffer.view(), first_buffer.view()); }),
        HasSubstr("the buffers of one call are in different memories"));
    void* const stream = gpus.make_stream(me);
    EXPECT_THAT(thrown_by<UsageError>(
                    [&] { group.all_reduce(second_buffer.view(), {}, {.stream = stream}); }),
                HasSubstr("the stream does not belong to GPU " + std::to_string(second)));
    EXPECT_EQ(group.collective_sequence(), 0u);
    expect_sum(group, me, second);
    expect_sum(world.group(), me, me);
    world.group().barrier();
  });
}

TEST_F(GpuSeveralEnds, GroupsAreDestroyedAndMadeAgain) {
  run([this](World& world) {
    const int me = world.rank();
    for (int i = 0; i < 3; ++i) {
      ProcessGroup group = on_second(world);
      expect_sum(group, me, second_of(world));
      group.destroy();
      Buffer late(gpus, second_of(world), {1});
      EXPECT_THAT(thrown_by<UsageError>([&] { group.all_reduce(late.view()); }),
                  HasSubstr("destroyed"));
      expect_sum(world.group(), me, me);
    }
  });
  EXPECT_EQ(gpus.count("init"), 4 * team);
  EXPECT_EQ(gpus.count("destroy"), 4 * team);
  EXPECT_TRUE(eventually([this] { return gpus.open_allocations() == 0; }));
}

TEST_F(GpuSeveralEnds, OneThatIsAbortedLeavesTheOthers) {
  run([this](World& world) {
    const int me = world.rank();
    ProcessGroup group = on_second(world);
    expect_sum(group, me, second_of(world));
    expect_sum(world.group(), me, me);
    world.group().barrier();
    group.abort("the test wants it so");
    Buffer late(gpus, second_of(world), {1});
    EXPECT_THAT(thrown_by<Error>([&] { group.all_reduce(late.view()); }),
                HasSubstr("the test wants it so"));
    expect_sum(world.group(), me, me);
    ProcessGroup again = on_second(world);
    expect_sum(again, me, second_of(world));
    world.group().barrier();
  });
}

TEST_F(GpuSeveralEnds, TheWorldEndsBeforeTheGroup) {
  std::array<ProcessGroup, team> groups;
  std::array<std::optional<Buffer>, team> sums;
  run([&](World& world) {
    const auto me = static_cast<std::size_t>(world.rank());
    groups.at(me) = on_second(world);
    expect_sum(groups.at(me), world.rank(), second_of(world));
    // In flight when the world is destroyed.
    sums.at(me).emplace(gpus, second_of(world), Ints{world.rank() + 1});
    groups.at(me).all_reduce_async(sums.at(me)->view()).wait();
  });
  EXPECT_EQ(gpus.count("init"), team);
  EXPECT_EQ(gpus.count("destroy") + gpus.count("abort"), team);
  for (std::size_t i = 0; i < team; ++i) {
    EXPECT_EQ(sums.at(i)->values(), Ints{6});
    EXPECT_THROW(groups.at(i).all_reduce(sums.at(i)->view()), UsageError);
  }
}

TEST_F(GpuSeveralEnds, CNamesThemByAPointer) {
  run([this](World& world) {
    hymnWorld handle;
    handle.world = &world;
    const std::array<int, team> everybody{0, 1, 2};
    const auto make = [&](const int* gpu, hymnGroup_t& group) {
      hymnGroupOptions_t options = HYMN_GROUP_OPTIONS_INIT;
      options.gpu = gpu;
      return hymnGroupCreate(&handle, everybody.data(), team, &options, &group);
    };
    hymnGroup_t group = nullptr;
    const int wrong = 77;
    EXPECT_EQ(make(&wrong, group), hymnUsageError);
    EXPECT_THAT(hymnGetLastError(), HasSubstr("GroupOptions::gpu is 77 on rank 0"));
    const int second = second_of(world);
    ASSERT_EQ(make(&second, group), hymnSuccess);
    expect_sum(group->group, world.rank(), second);
    EXPECT_EQ(hymnGroupFree(group), hymnSuccess);
    ASSERT_EQ(make(nullptr, group), hymnSuccess);
    expect_sum(group->group, world.rank(), world.rank());
    EXPECT_EQ(hymnGroupFree(group), hymnSuccess);
    world.group().barrier();
  });
}

}  // namespace
}  // namespace hymn::test
