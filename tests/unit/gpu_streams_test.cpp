// Operations in the order of streams: ranks as threads over doubles of the driver and of NCCL.
#include <array>
#include <cstdlib>
#include <functional>

#include "hymn/hymn.h"
#include "runtime/c_api/c_api.hpp"
#include "tests/unit/toy_gpu_test.hpp"

namespace hymn::test {
namespace {

class GpuStreams : public ToyGpuTest {};

Request on_stream(Request request, void* stream) {
  request.domain = {OrderingDomain::Kind::stream, stream};
  return request;
}

TEST_F(GpuStreams, TheOperationComesBetweenWhatIsBeforeAndAfter) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    void* const stream = gpus.make_stream(me);
    Buffer buffer(gpus, me, {0});
    Buffer copy(gpus, me, {0});
    // The collective is held back: the host goes on nevertheless.
    if (me == 0) gpus.hold("collective");
    world.group().barrier();
    gpus.enqueue(stream, [&] { *buffer.data() = me + 1; });
    world.group().all_reduce(buffer.view(), {}, {.stream = stream});
    gpus.enqueue(stream, [&] { *copy.data() = *buffer.data(); });
    EXPECT_EQ(copy.values(), Ints{0}) << "what comes after it did not wait";
    world.group().barrier();
    if (me == 0) gpus.release();
    EXPECT_TRUE(gpus.synchronize(stream));
    EXPECT_EQ(copy.values(), Ints{3});
    world.group().wait_for_pending_works();
    world.group().barrier();
  });
}

TEST_F(GpuStreams, AStreamCanWaitForAWork) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    void* const mine = gpus.make_stream(me);
    Buffer buffer(gpus, me, {me + 1});
    Buffer copy(gpus, me, {0});
    if (me == 0) gpus.hold("collective");
    world.group().barrier();
    Work work = world.group().all_reduce_async(buffer.view());
    work.wait_on(mine);
    gpus.enqueue(mine, [&] { *copy.data() = *buffer.data(); });
    EXPECT_FALSE(work.test());
    EXPECT_EQ(copy.values(), Ints{0}) << "the stream did not wait";
    world.group().barrier();
    if (me == 0) gpus.release();
    EXPECT_TRUE(gpus.synchronize(mine));
    EXPECT_EQ(copy.values(), Ints{3});
    work.wait();
    work.wait_on(mine);
    world.group().barrier();
  });
}

TEST_F(GpuStreams, EventsAreUsedAgain) {
  gpus.run([this](World& world) {
    Buffer buffer(gpus, world.rank(), {0});
    for (int i = 0; i < 50; ++i) world.group().all_reduce(buffer.view());
    world.group().barrier();
    EXPECT_LE(gpus.open_events(), 2);
    world.group().barrier();
  });
}

TEST_F(GpuStreams, WhatIsCapturedIsNeverAskedFor) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    void* const stream = gpus.make_stream(me);
    Buffer buffer(gpus, me, {1});
    world.group().all_reduce(buffer.view());  // the communicator is made outside of the capture
    world.group().barrier();
    const int before = gpus.queries();
    world.group().barrier();
    gpus.capture(stream);
    world.group().all_reduce(buffer.view(), {}, {.stream = stream});
    Work work = world.group().all_reduce_async(buffer.view(), {}, {.stream = stream});
    work.wait();
    gpus.end_capture(stream);
    EXPECT_EQ(buffer.values(), Ints{2}) << "nothing happens before the graph is launched";
    world.group().barrier();
    EXPECT_EQ(gpus.queries(), before);
    world.group().barrier();
    gpus.launch_graph(stream);
    EXPECT_TRUE(gpus.synchronize(stream));
    EXPECT_EQ(buffer.values(), Ints{8});
    world.group().barrier();
  });
}

TEST_F(GpuStreams, BarriersAreOrderedByStreams) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    void* const stream = gpus.make_stream(me);
    bool after = false;
    const Explanation told = world.group().explain(on_stream(Request::barrier(), stream));
    EXPECT_EQ(told.algorithm, "barrier_nccl");
    // One rank holds its GPU back: the others' streams wait, and their hosts do not.
    if (me == 0) gpus.hold("collective");
    world.group().barrier();
    world.group().barrier({.stream = stream});
    gpus.enqueue(stream, [&after] { after = true; });
    EXPECT_FALSE(after);
    world.group().barrier();
    if (me == 0) gpus.release();
    EXPECT_TRUE(gpus.synchronize(stream));
    EXPECT_TRUE(after);
    world.group().wait_for_pending_works();
    world.group().barrier();
  });
  EXPECT_EQ(gpus.count("all_reduce"), 2) << "one for each rank";
}

TEST_F(GpuStreams, ABarrierGoesIntoAGraph) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    void* const stream = gpus.make_stream(me);
    world.group().barrier({.stream = stream});
    world.group().wait_for_pending_works();
    gpus.capture(stream);
    world.group().barrier({.stream = stream});
    gpus.end_capture(stream);
    if (me == 0) gpus.hold("collective");
    world.group().barrier();
    bool after = false;
    gpus.launch_graph(stream);
    gpus.enqueue(stream, [&after] { after = true; });
    EXPECT_FALSE(after) << "the graph holds no barrier";
    world.group().barrier();
    if (me == 0) gpus.release();
    EXPECT_TRUE(gpus.synchronize(stream));
    EXPECT_TRUE(after);
    world.group().barrier();
  });
}

TEST_F(GpuStreams, BadStreamsAreRefused) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    ProcessGroup group = world.group();
    Buffer buffer(gpus, me, {1});
    void* const others = gpus.make_stream(1 - me);
    void* const mine = gpus.make_stream(me);
    EXPECT_THAT(
        thrown_by<UsageError>([&] { group.all_reduce(buffer.view(), {}, {.stream = others}); }),
        HasSubstr("the stream does not belong to GPU " + std::to_string(me)));
    EXPECT_THAT(thrown_by<UsageError>([&] { group.barrier({.stream = others}); }),
                HasSubstr("the stream does not belong to GPU"));
    Ints host{1};
    EXPECT_THAT(thrown_by<UsageError>([&] { group.all_reduce(host, {}, {.stream = mine}); }),
                HasSubstr("the input buffer is in host memory, or has been freed"));
    EXPECT_EQ(group.collective_sequence(), 0u) << "something was enqueued";
    Work work = group.all_reduce_async(buffer.view());
    EXPECT_THAT(thrown_by<UsageError>([&] { work.wait_on(others); }),
                HasSubstr("does not belong to GPU"));
    work.wait();
    group.barrier();
  });
}

// Managed memory is also the host's, and no memory is nowhere: the stream tells where they are
// used.
TEST_F(GpuStreams, WhatHasNoPlaceOfItsOwnFollowsTheStream) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    void* const stream = gpus.make_stream(me);
    Buffer managed(gpus, me, {me + 1}, MemoryKind::managed);
    if (me == 0) gpus.hold("collective");
    world.group().barrier();
    world.group().all_reduce(managed.view(), {}, {.stream = stream});
    world.group().barrier();
    if (me == 0) gpus.release();
    EXPECT_TRUE(gpus.synchronize(stream));
    EXPECT_EQ(managed.values(), Ints{3});
    // Rank 1 gets nothing of it.
    const std::array<std::size_t, 2> counts{1, 0};
    Buffer all(gpus, me, {7});
    Ints none;
    const ConstBufferView in = me == 0 ? ConstBufferView(all.view()) : ConstBufferView(none);
    Buffer part(gpus, me, {0});
    const BufferView out = me == 0 ? part.view() : BufferView(none);
    world.group().scatter(in, counts, out, 0, {.stream = stream});
    EXPECT_TRUE(gpus.synchronize(stream));
    EXPECT_EQ(part.values(), Ints{me == 0 ? 7 : 0});
    world.group().wait_for_pending_works();
    world.group().barrier();
  });
  EXPECT_EQ(gpus.count("all_reduce"), 2);
}

TEST_F(GpuStreams, AFirstCallIsNotCaptured) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    void* const stream = gpus.make_stream(me);
    Buffer buffer(gpus, me, {1});
    gpus.capture(stream);
    EXPECT_THAT(thrown_by<UsageError>(
                    [&] { world.group().all_reduce(buffer.view(), {}, {.stream = stream}); }),
                HasSubstr("communicator has not been created yet"));
    gpus.end_capture(stream);
    EXPECT_EQ(world.group().collective_sequence(), 0u);
    world.group().all_reduce(buffer.view());
    EXPECT_EQ(buffer.values(), Ints{2});
    world.group().barrier();
  });
}

TEST_F(GpuStreams, WithoutAGpuThereAreNone) {
  setenv("HYMN_GPU", "none", 1);
  run_ranks(1, [](World& world) {
    Ints host{1};
    int no_stream = 0;
    EXPECT_THAT(thrown_by<UnsupportedError>(
                    [&] { world.group().all_reduce(host, {}, {.stream = &no_stream}); }),
                HasSubstr("no path of this group works on streams"));
    EXPECT_THAT(thrown_by<UnsupportedError>([&] { world.group().barrier({.stream = &no_stream}); }),
                HasSubstr("no path of this group works on streams"));
    EXPECT_EQ(world.group().collective_sequence(), 0u);
  });
  unsetenv("HYMN_GPU");
}

TEST_F(GpuStreams, TheCApiTakesThem) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    void* const stream = gpus.make_stream(me);
    Buffer in(gpus, me, {me + 1});
    Buffer out(gpus, me, {0});
    hymnGroup group{world.group()};
    EXPECT_EQ(hymnAllReduce(in.data(), out.data(), 1, hymnInt32, hymnSum, &group, stream),
              hymnSuccess);
    EXPECT_TRUE(gpus.synchronize(stream));
    EXPECT_EQ(out.values(), Ints{3});
    hymnWork_t work = nullptr;
    EXPECT_EQ(hymnIAllReduce(out.data(), out.data(), 1, hymnInt32, hymnSum, &group, NULL, &work),
              hymnSuccess);
    EXPECT_EQ(hymnWorkWaitOn(work, stream), hymnSuccess);
    EXPECT_EQ(hymnWorkWait(work), hymnSuccess);
    EXPECT_EQ(out.values(), Ints{6});
    EXPECT_EQ(hymnWorkFree(work), hymnSuccess);
    world.group().barrier();
  });
}

TEST_F(GpuStreams, TheOptionsOfTheCApiReachNccl) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    hymnWorld handle{.own = {}, .world = &world, .group = {}};
    int gpu = -1;
    EXPECT_EQ(hymnWorldGpu(&handle, &gpu), hymnSuccess);
    EXPECT_EQ(gpu, me);
    hymnGroupOptions_t options = HYMN_GROUP_OPTIONS_INIT;
    options.nccl_init = hymnNcclInitEager;
    options.nccl_min_ctas = 2;
    options.nccl_max_ctas = 8;
    options.nccl_cga_size = -1;
    options.nccl_blocking = 1;
    options.high_priority_stream = 1;
    const std::array<int, 2> both{0, 1};
    hymnGroup_t group = nullptr;
    EXPECT_EQ(hymnGroupCreate(&handle, both.data(), 2, &options, &group), hymnSuccess);
    EXPECT_EQ(gpus.count("init"), 2) << "it is eager";
    Buffer buffer(gpus, me, {me + 1});
    EXPECT_EQ(hymnAllReduce(buffer.data(), buffer.data(), 1, hymnInt32, hymnSum, group, nullptr),
              hymnSuccess);
    EXPECT_EQ(buffer.values(), Ints{3});
    EXPECT_EQ(hymnGroupFree(group), hymnSuccess);
    world.group().barrier();
  });
  const nccl_api::Config last = gpus.last_config();
  EXPECT_EQ(last.min_ctas, 2);
  EXPECT_EQ(last.max_ctas, 8);
  EXPECT_EQ(last.cga_cluster_size, 0);
  EXPECT_EQ(last.blocking, 1);
  EXPECT_EQ(gpus.streams_of_high_priority(), 2);
}

}  // namespace
}  // namespace hymn::test
