// Coalesced collectives on GPUs, and buffers that NCCL knows beforehand: ranks as threads over
// doubles of the driver and of NCCL.
#include <array>
#include <chrono>
#include <optional>
#include <thread>

#include "hymn/coalesce.hpp"
#include "tests/unit/toy_gpu_test.hpp"

namespace hymn::test {
namespace {

class GpuCoalesced : public ToyGpuTest {};

TEST_F(GpuCoalesced, AreOneGroupOfNccl) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    Buffer a(gpus, me, {me + 1});
    Buffer b(gpus, me, {10, 20});
    Buffer c(gpus, me, {5});
    const std::array<BufferView, 3> views{a.view(), b.view(), c.view()};
    world.group().all_reduce_coalesced(views);
    EXPECT_EQ(a.values(), Ints{3});
    EXPECT_EQ(b.values(), (Ints{20, 40}));
    EXPECT_EQ(c.values(), Ints{10});
    world.group().barrier();
  });
  EXPECT_EQ(gpus.count("group"), 2) << "one for each rank";
  EXPECT_EQ(gpus.count("all_reduce"), 6);
}

TEST_F(GpuCoalesced, OnStreamsAndInGraphs) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    void* const stream = gpus.make_stream(me);
    Buffer a(gpus, me, {1});
    Buffer b(gpus, me, {2});
    const std::array<BufferView, 2> views{a.view(), b.view()};
    world.group().all_reduce_coalesced(views, {}, {.stream = stream});
    EXPECT_TRUE(gpus.synchronize(stream));
    world.group().wait_for_pending_works();
    EXPECT_EQ(b.values(), Ints{4});
    world.group().barrier();
    gpus.capture(stream);
    world.group().all_reduce_coalesced(views, {}, {.stream = stream});
    gpus.end_capture(stream);
    EXPECT_EQ(a.values(), Ints{2});
    world.group().barrier();
    gpus.launch_graph(stream);
    EXPECT_TRUE(gpus.synchronize(stream));
    EXPECT_EQ(a.values(), Ints{4});
    EXPECT_EQ(b.values(), Ints{8});
    world.group().barrier();
  });
}

TEST_F(GpuCoalesced, OfDifferentTypesAreRefused) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    Buffer a(gpus, me, {1});
    ToyBuffer<bool> flag(gpus, me, {me == 1});
    const std::array<BufferView, 2> views{a.view(), flag.view()};
    EXPECT_THAT(thrown_by<UsageError>([&] { world.group().all_reduce_coalesced(views); }),
                HasSubstr("tensors with different dtypes in one coalesced call"));
    world.group().barrier();
  });
  EXPECT_EQ(gpus.count("group"), 0);
}

TEST_F(GpuCoalesced, AScopeOnAStreamIsOneGroupOfNccl) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    void* const stream = gpus.make_stream(me);
    Buffer a(gpus, me, {me + 1});
    Buffer b(gpus, me, {10, 20});
    const auto body = [&] {
      world.group().all_reduce(a.view());
      world.group().all_reduce(b.view(), {}, {.stream = stream});
    };
    coalesce(world.group(), body, {.stream = stream});
    EXPECT_TRUE(gpus.synchronize(stream));
    EXPECT_EQ(a.values(), Ints{3});
    EXPECT_EQ(b.values(), (Ints{20, 40}));
    EXPECT_EQ(world.group().collective_sequence(), 1u);
    world.group().barrier();
  });
  EXPECT_EQ(gpus.count("group"), 2) << "one for each rank";
}

TEST_F(GpuCoalesced, BroadcastsOfAnyTypesAreOneGroupOfNccl) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    Buffer a(gpus, me, {me, me});
    ToyBuffer<double> b(gpus, me, {me + 0.5});
    const std::array<BufferView, 2> views{a.view(), b.view()};
    broadcast_coalesced(world.group(), views, 256, 1);
    EXPECT_EQ(a.values(), (Ints{1, 1}));
    EXPECT_EQ(b.values(), std::vector<double>{1.5});
    world.group().barrier();
  });
  EXPECT_EQ(gpus.count("group"), 2) << "one for each rank";
}

// Another group's collectives must not come between them, nor be drawn into their group.
TEST_F(GpuCoalesced, KeepTheirPlaceInTheOrder) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    ProcessGroup other = world.new_group({0, 1});
    Buffer a(gpus, me, {1});
    Buffer b(gpus, me, {1});
    Buffer c(gpus, me, {1});
    const std::array requests{Request::all_reduce(a.view(), a.view()),
                              Request::all_reduce(b.view(), b.view())};
    Work before = other.all_reduce_async(c.view());
    Work both = world.group().start_coalesced(requests);
    Work behind = other.all_reduce_async(c.view());
    behind.wait();
    both.wait();
    before.wait();
    EXPECT_EQ(c.values(), Ints{4});
    EXPECT_EQ(b.values(), Ints{2});
  });
  for (int gpu = 0; gpu < 2; ++gpu) {
    std::vector<std::string> reductions;
    for (const std::string& call : gpus.calls(gpu))
      if (call.starts_with("all_reduce")) reductions.push_back(call);
    ASSERT_EQ(reductions.size(), 4u);
    EXPECT_EQ(reductions[0], reductions[3]);
    EXPECT_EQ(reductions[1], reductions[2]);
    EXPECT_NE(reductions[0], reductions[1]);
  }
}

// --- Buffers that NCCL knows

TEST_F(GpuCoalesced, BuffersAreRegisteredAndReleased) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    Buffer buffer(gpus, me, {me + 1, 0, 0, 0});
    RegisteredBuffer known = world.group().register_buffer(buffer.data() + 1, 12);
    EXPECT_TRUE(known.is_registered());
    EXPECT_EQ(known.data(), buffer.data() + 1);
    EXPECT_EQ(known.bytes(), 12u);
    world.group().all_reduce(buffer.view());
    EXPECT_EQ(buffer.values()[0], 3);
    known.release();
    EXPECT_FALSE(known.is_registered());
    known.release();
    // One more, that the group's end ends.
    RegisteredBuffer left = world.group().register_buffer(buffer.data(), 16);
    world.group().barrier();
    world.destroy();
    EXPECT_FALSE(left.is_registered());
  });
  EXPECT_EQ(gpus.count("register"), 4);
  EXPECT_EQ(gpus.count("deregister"), 4);
}

TEST_F(GpuCoalesced, WindowsAreOpenedByAll) {
  gpus.run([](World& world) {
    RegisteredBuffer window = world.group().allocate_registered(64, Registration::window);
    EXPECT_TRUE(window.is_registered());
    ASSERT_NE(window.data(), nullptr);
    auto* const values = static_cast<float*>(window.data());
    *values = static_cast<float>(world.rank() + 1);
    world.group().all_reduce(BufferView(values, 1, DataType::float32));
    EXPECT_EQ(*values, 3);
    world.group().barrier();
    RegisteredBuffer moved = std::move(window);
    EXPECT_FALSE(window.is_registered());
    EXPECT_TRUE(moved.is_registered());
  });
  EXPECT_EQ(gpus.count("open_window"), 2);
  EXPECT_EQ(gpus.count("close_window"), 2);
  EXPECT_TRUE(eventually([this] { return gpus.open_allocations() == 0; }));
}

TEST_F(GpuCoalesced, NothingLeaksWhenTheGroupIsGivenUp) {
  gpus.run([this](World& world) {
    ProcessGroup group = world.new_group({0, 1});
    std::optional<RegisteredBuffer> early = group.allocate_registered(64);
    RegisteredBuffer late = group.allocate_registered(64);
    Buffer buffer(gpus, world.rank(), {1});
    if (world.rank() == 0) gpus.hold("collective");
    world.group().barrier();
    Work work = group.all_reduce_async(buffer.view());
    while (!work.is_completed() && gpus.count("all_reduce") < 2) work.test();
    world.group().barrier();
    if (world.rank() == 0) group.abort("the test wants it so");
    EXPECT_THAT(thrown_by<AbortedError>([&] { work.wait(); }), HasSubstr("the test wants it so"));
    EXPECT_FALSE(late.is_registered());
    early.reset();
    EXPECT_THAT(thrown_by<AbortedError>([&] { group.allocate_registered(64); }),
                HasSubstr("the test wants it so"));
    world.group().barrier();
    if (world.rank() == 0) gpus.release();
    // What NCCL has not let go of when a world ends stays with it.
    EXPECT_TRUE(eventually([this] { return gpus.count("abort") == 2; }));
    // Who has counted that has to come back from it, too.
    for (int i = 0; i < 100; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      world.group().barrier_async().wait();
    }
  });
  EXPECT_EQ(gpus.count("deregister"), 0) << "NCCL drops them itself";
  EXPECT_TRUE(eventually([this] { return gpus.open_allocations() == 0; }));
}

// What was given up is kept as long as the process by then, but not its memory.
TEST_F(GpuCoalesced, MemoryIsFreedWhenNcclLetsGoThoughTheWorldHasEnded) {
  Buffer one(gpus, 0, {1});
  Buffer other(gpus, 1, {1});
  gpus.run([&](World& world) {
    ProcessGroup group = world.new_group({0, 1});
    RegisteredBuffer known = group.allocate_registered(64);
    group.barrier();
    if (world.rank() == 0) {
      gpus.hold("collective");
      gpus.hold("abort");
    }
    world.group().barrier();
    Work work = group.all_reduce_async((world.rank() == 0 ? one : other).view());
    EXPECT_TRUE(eventually([&] { return work.test(), gpus.count("all_reduce") == 2; }));
    world.group().barrier();
    group.abort("the test wants it so");
    EXPECT_THAT(thrown_by<AbortedError>([&] { work.wait(); }), HasSubstr("the test wants it so"));
    world.group().barrier();
  });
  EXPECT_EQ(gpus.open_of_nccl(), 2) << "NCCL is still at it";
  gpus.release();
  EXPECT_TRUE(eventually([this] { return gpus.open_of_nccl() == 0; }));
}

TEST_F(GpuCoalesced, WrongBuffersAreRefused) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    ProcessGroup group = world.group();
    Ints host(4);
    Buffer others(gpus, 1 - me, {1});
    Buffer mine(gpus, me, {1, 2});
    EXPECT_THAT(thrown_by<UsageError>([&] { group.register_buffer(host.data(), 16); }),
                HasSubstr("is not in the memory of GPU " + std::to_string(me)));
    EXPECT_THAT(thrown_by<UsageError>([&] { group.register_buffer(others.data(), 4); }),
                HasSubstr("is not in the memory of GPU"));
    EXPECT_THAT(thrown_by<UsageError>([&] { group.register_buffer(mine.data() + 1, 8); }),
                HasSubstr("the allocation has 4"));
    EXPECT_THAT(thrown_by<UsageError>([&] { group.register_buffer(mine.data(), 0); }),
                HasSubstr("0 bytes"));
    EXPECT_THAT(thrown_by<UsageError>([&] { group.allocate_registered(0); }),
                HasSubstr("no bytes"));
    EXPECT_EQ(gpus.count("register"), 0);
    world.group().barrier();
  });
}

TEST_F(GpuCoalesced, WhatThisNcclHasNotIsSaid) {
  gpus.set_version(21805);
  gpus.run([this](World& world) {
    Buffer mine(gpus, world.rank(), {1});
    EXPECT_THAT(thrown_by<UnsupportedError>([&] { world.group().register_buffer(mine.data(), 4); }),
                HasSubstr("NCCL 2.18.5 has no ncclCommRegister: 2.19 or newer is needed"));
    EXPECT_THAT(thrown_by<UnsupportedError>(
                    [&] { world.group().allocate_registered(4, Registration::window); }),
                HasSubstr("has no ncclCommWindowRegister: 2.27 or newer is needed"));
  });
}

TEST_F(GpuCoalesced, WhereNcclCarriesNothingThereIsNoRegistering) {
  gpus.run_with_others(3, [](World& world) {
    int value = 0;
    EXPECT_THAT(thrown_by<UnsupportedError>([&] { world.group().register_buffer(&value, 4); }),
                HasSubstr("NCCL does not carry this group"));
    world.group().barrier();
  });
}

TEST_F(GpuCoalesced, AMemberThatDoesNotRegisterIsWaitedForWithinTheLimit) {
  gpus.run([this](World& world) {
    ProcessGroup group = world.new_group({0, 1});
    if (world.rank() == 0) {
      Buffer mine(gpus, 0, {1});
      EXPECT_THAT(thrown_by<TimeoutError>([&] {
                    group.register_buffer(mine.data(), 4, Registration::local,
                                          {.timeout = std::chrono::milliseconds(100)});
                  }),
                  HasSubstr("register_buffer"));
    }
    EXPECT_TRUE(eventually([&group] { return group.is_aborted(); }));
  });
}

}  // namespace
}  // namespace hymn::test
