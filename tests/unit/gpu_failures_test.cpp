// What goes wrong on GPUs, and what is wrong with calls on their memory: ranks as threads over
// doubles of the driver and of NCCL.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "tests/unit/toy_gpu_test.hpp"

namespace hymn::test {
namespace {

using ::testing::Contains;

using std::chrono::milliseconds;

/// Whether that is why this path was not taken.
bool tells(const Explanation& told, std::string_view path, std::string_view reason) {
  return std::any_of(told.candidates.begin(), told.candidates.end(), [&](const Candidate& other) {
    return other.path == path && !other.can_run && other.reason == reason;
  });
}

class GpuFailures : public ToyGpuTest {
 protected:
  /// What the first rank is told, if all are told something of that kind.
  template <class Thrown>
  std::string refusal(const std::function<void()>& run) {
    return thrown_by<Thrown>([&] {
      try {
        run();
      } catch (const RanksFailed& failed) {
        failed.rethrow_first();
      }
    });
  }
};

// --- Time and death

/// Makes a call that gets stuck, and tells what is thrown. The one rank whose time is short calls
/// when the other's `step` has been taken: both have something to abort.
std::string call_with_little_time(ToyGpus& gpus, ProcessGroup& group, const Buffer& buffer,
                                  int hasty, const char* step, int steps) {
  milliseconds limit = std::chrono::minutes(1);
  if (group.rank() == hasty) {
    EXPECT_TRUE(eventually([&] { return gpus.count(step) == steps; }));
    limit = milliseconds(100);
  }
  return thrown_by<Error>([&] { group.all_reduce(buffer.view(), {}, {.timeout = limit}); });
}

/// Uses the group once, so that its communicator is there, and then gets stuck.
std::string use_and_get_stuck(ToyGpus& gpus, ProcessGroup& group, const Buffer& buffer) {
  group.all_reduce(buffer.view());
  group.barrier();
  if (group.rank() == 0) gpus.hold("collective");
  group.barrier();
  return call_with_little_time(gpus, group, buffer, 0, "all_reduce", 3);
}

TEST_F(GpuFailures, AStuckCollectiveIsAbortedWhenItsTimeHasPassed) {
  gpus.run([this](World& world) {
    Buffer buffer(gpus, world.rank(), {1});
    ProcessGroup group = world.new_group({0, 1}, {.description = "layers"});
    const std::string text = use_and_get_stuck(gpus, group, buffer);
    EXPECT_THAT(text, HasSubstr("all_reduce #"));
    EXPECT_THAT(text, HasSubstr("layers"));
    EXPECT_TRUE(group.is_aborted());
    EXPECT_THAT(thrown_by<AbortedError>([&] { group.all_reduce(buffer.view()); }),
                HasSubstr("all_reduce"));
    EXPECT_TRUE(eventually([this] { return gpus.count("abort") == 2; }));
    // Other groups go on.
    gpus.release();
    world.group().all_reduce(buffer.view());
  });
  EXPECT_EQ(gpus.count("all_reduce"), 6);
}

TEST_F(GpuFailures, TheDeadlineIsSeenWhileNcclIsInInit) {
  gpus.hold("init");
  std::atomic<int> gone = 0;
  gpus.run([&](World& world) {
    Buffer buffer(gpus, world.rank(), {1});
    ProcessGroup group = world.new_group({0, 1});
    // The first rank begins, for it makes the name under which the others come.
    const std::string text = call_with_little_time(gpus, group, buffer, 1, "init", 1);
    EXPECT_THAT(text, HasSubstr("all_reduce #1"));
    EXPECT_TRUE(group.is_aborted());
    group.destroy();
    if (++gone == 2) gpus.release();
  });
  EXPECT_EQ(gpus.count("all_reduce"), 0);
  EXPECT_TRUE(eventually([this] { return gpus.count("abort") == 2; })) << "made after all";
}

TEST_F(GpuFailures, ARankThatDoesNotCallIsNamed) {
  gpus.run([this](World& world) {
    Buffer buffer(gpus, world.rank(), {1});
    world.group().all_reduce(buffer.view());
    if (world.rank() == 0) {
      const std::string text = thrown_by<TimeoutError>(
          [&] { world.group().all_reduce(buffer.view(), {}, {.timeout = milliseconds(100)}); });
      EXPECT_THAT(text, HasSubstr("rank 1"));
    }
    EXPECT_TRUE(eventually([&] { return world.group().is_aborted(); }));
    EXPECT_EQ(buffer.values(), Ints{2});
  });
  EXPECT_EQ(gpus.count("destroy"), 0) << "a communicator ended as if all were well";
}

TEST_F(GpuFailures, ADeadRankReleasesTheOthers) {
  const std::string text = thrown_by<RanksFailed>([this] {
    gpus.run([this](World& world) {
      Buffer buffer(gpus, world.rank(), {1});
      if (world.rank() == 1) throw std::runtime_error("it has had enough");
      world.group().all_reduce(buffer.view());
    });
  });
  EXPECT_THAT(text, HasSubstr("rank 1: it has had enough"));
}

TEST_F(GpuFailures, WhatHasComeBeforeItsSenderLeftIsReceived) {
  std::atomic<bool> has_looked = false;
  std::atomic<bool> is_sent = false;
  gpus.run([&](World& world) {
    Buffer buffer(gpus, world.rank(), {world.rank()});
    if (world.rank() == 1) {
      world.group().send(buffer.view(), 0);
      EXPECT_TRUE(eventually([&] { return has_looked.load(); }));
      world.group().send(buffer.view(), 0);
      is_sent = true;
      return;
    }
    world.group().recv(buffer.view(), 1);
    // As if this thread lost its core after a look in vain, until long after the other's goodbye.
    gpus.after_next_look([&] {
      has_looked = true;
      EXPECT_TRUE(eventually([&] { return is_sent.load(); }));
      std::this_thread::sleep_for(milliseconds(400));
    });
    world.group().recv(buffer.view(), 1);
    EXPECT_EQ(buffer.values(), Ints{1});
  });
}

TEST_F(GpuFailures, AnotherThreadCanAbort) {
  gpus.hold("collective");
  gpus.run([this](World& world) {
    Buffer buffer(gpus, world.rank(), {1});
    ProcessGroup group = world.new_group({0, 1});
    std::thread other;
    if (world.rank() == 0)
      other = std::thread([&] {
        EXPECT_TRUE(eventually([this] { return gpus.count("all_reduce") == 2; }));
        group.abort("the test wants it");
      });
    EXPECT_THAT(thrown_by<AbortedError>([&] { group.all_reduce(buffer.view()); }),
                HasSubstr("the test wants it"));
    if (other.joinable()) other.join();
    EXPECT_TRUE(eventually([this] { return gpus.count("abort") == 2; }));
    gpus.release();
  });
}

TEST_F(GpuFailures, AnAbortThatHangsHoldsNobody) {
  gpus.hold("abort");
  // Until NCCL has let go of them the GPUs may still use them.
  Buffer buffers[] = {{gpus, 0, {1}}, {gpus, 1, {1}}};
  gpus.run([&](World& world) {
    const Buffer& buffer = buffers[world.rank()];
    EXPECT_THAT(use_and_get_stuck(gpus, world.group(), buffer), HasSubstr("all_reduce #"));
  });
  gpus.release();
  EXPECT_TRUE(eventually([this] { return gpus.count("abort") == 2; }));
}

// The other rank comes long after the limit. A stream that waits holds no thread, and nobody is
// told before a thread waits.
TEST_F(GpuFailures, test_nccl_errors_nonblocking) {
  Config config;
  config.on_failure = OnFailure::report;
  std::atomic<bool> may_come = false;
  gpus.run(
      [&, this](World& world) {
        const int me = world.rank();
        Buffer buffer(gpus, me, {1});
        Buffer next(gpus, me, {10});
        ProcessGroup group = world.new_group({0, 1});
        group.all_reduce(buffer.view());
        void* const stream = gpus.make_stream(me);
        const auto start = [&](const Buffer& values) {
          Work work = group.all_reduce_async(values.view(), {}, {.timeout = milliseconds(50)});
          work.wait_on(stream);
          return work;
        };
        std::vector<Work> works;
        if (me == 0) {
          works = {start(buffer), start(next)};
          std::this_thread::sleep_for(milliseconds(500));
          EXPECT_FALSE(group.is_aborted());
          for (const Work& work : works) EXPECT_FALSE(work.is_completed());
          may_come = true;
        }
        // Not by a barrier: in one that lasts the first rank would move its works on, and find that
        // their limit has passed.
        EXPECT_TRUE(eventually([&] { return may_come.load(); }));
        if (me == 1) works = {start(buffer), start(next)};
        EXPECT_TRUE(gpus.synchronize(stream));
        EXPECT_EQ(buffer.values(), Ints{4});
        EXPECT_EQ(next.values(), Ints{20});
        world.group().barrier();
      },
      {}, config);
}

// --- Errors of the libraries

TEST_F(GpuFailures, ErrorsThatNcclFindsLaterAreThrown) {
  // Not by a barrier of the group, which is aborted as soon as one rank has seen the error.
  std::atomic<bool> is_broken = false;
  Buffer buffers[] = {{gpus, 0, {1}}, {gpus, 1, {1}}};
  gpus.run([&](World& world) {
    const Buffer& buffer = buffers[world.rank()];
    world.group().all_reduce(buffer.view());
    world.group().barrier();
    if (world.rank() == 0) {
      gpus.hold("collective");
      gpus.set_state(nccl_api::remote_error);
      is_broken = true;
    }
    EXPECT_TRUE(eventually([&] { return is_broken.load(); }));
    EXPECT_THAT(thrown_by<Error>([&] { world.group().all_reduce(buffer.view()); }),
                HasSubstr("remote process exited"));
    EXPECT_TRUE(world.group().is_aborted());
  });
  gpus.release();
}

TEST_F(GpuFailures, CallsThatNcclRefusesAreThrown) {
  gpus.run([this](World& world) {
    Buffer buffer(gpus, world.rank(), {1});
    ProcessGroup group = world.new_group({0, 1});
    group.all_reduce(buffer.view());
    group.barrier();
    if (world.rank() == 0) {
      gpus.fail("broadcast", nccl_api::system_error);
      EXPECT_THAT(thrown_by<BackendError>([&] { group.broadcast(buffer.view(), 0); }),
                  HasSubstr("ncclBroadcast failed with unhandled system error"));
    } else {
      EXPECT_TRUE(eventually([&] { return group.is_aborted(); }));
      EXPECT_THAT(thrown_by<AbortedError>([&] { group.broadcast(buffer.view(), 0); }),
                  HasSubstr("ncclBroadcast"));
    }
  });
}

TEST_F(GpuFailures, ErrorsOnTheGpuAreThrown) {
  // The other's part may come onto its stream after the error here, and is not given up yet then.
  Buffer buffers[] = {{gpus, 0, {1}}, {gpus, 1, {1}}};
  gpus.run([&](World& world) {
    const Buffer& buffer = buffers[world.rank()];
    world.group().barrier();
    if (world.rank() == 0) gpus.fail("query", cuda_api::out_of_memory);
    world.group().barrier();
    EXPECT_THAT(thrown_by<Error>([&] { world.group().all_reduce(buffer.view()); }),
                HasSubstr("cuEventQuery"));
  });
}

// --- When groups are made

TEST_F(GpuFailures, VersionsMustBeTheSame) {
  NcclLibrary older = gpus.pretended().libraries.nccl();
  older.version = 21803;
  PretendedGpus other = gpus.pretended();
  other.libraries.nccl = [&older]() -> const NcclLibrary& { return older; };
  const std::string text = refusal<ConfigError>([&] {
    gpus.run_mixed({&gpus.pretended(), &other},
                   [](World&) { ADD_FAILURE() << "a world was made"; });
  });
  EXPECT_THAT(text, HasSubstr("2.18.3 on rank(s) 1; 2.28.9 on rank(s) 0"));
}

TEST_F(GpuFailures, WithoutNcclOnOneRankThereIsNone) {
  const NcclLibrary none{.functions = {}, .version = 0, .problem = "libnccl.so.2: no such file"};
  PretendedGpus other = gpus.pretended();
  other.libraries.nccl = [&none]() -> const NcclLibrary& { return none; };
  gpus.run_mixed({&gpus.pretended(), &other}, [this](World& world) {
    Buffer buffer(gpus, world.rank(), {1});
    const Explanation told =
        world.group().explain(Request::all_reduce(buffer.view(), buffer.view()));
    EXPECT_EQ(told.path, "staged");
    EXPECT_TRUE(tells(told, "nccl", "NCCL cannot be used on rank 1: libnccl.so.2: no such file"));
    world.group().all_reduce(buffer.view());
    EXPECT_EQ(buffer.values(), Ints{2});
    EXPECT_THAT(thrown_by<ConfigError>([&] { world.new_group({0, 1}, {.path = "nccl"}); }),
                HasSubstr("leaves only NCCL, but NCCL cannot be used on rank 1"));
    std::int32_t sum = 1;
    world.group().all_reduce(view_of(sum));
    EXPECT_EQ(sum, 2);
  });
}

TEST_F(GpuFailures, OptionsAreChecked) {
  Config config;
  config.nccl = {.min_ctas = 9, .max_ctas = 8};
  EXPECT_THAT(refusal<ConfigError>([&] { gpus.run([](World&) {}, {}, config); }),
              HasSubstr("at least 9 thread blocks (CTAs) for NCCL, but at most 8"));
  gpus.run([](World& world) {
    EXPECT_THAT(thrown_by<ConfigError>([&] { world.new_group({0, 1}, {.nccl = {.cga_size = 9}}); }),
                HasSubstr("cga_size is 9"));
    // What differs on the ranks is found before anything is made.
    GroupOptions options;
    if (world.rank() == 0) options.nccl.init = NcclInit::eager;
    EXPECT_THAT(thrown_by<UsageError>([&] { world.new_group({0, 1}, options); }),
                HasSubstr("init eager"));
  });
}

// --- Calls that are wrong

TEST_F(GpuFailures, BadBuffersAreRefused) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    ProcessGroup group = world.group();
    Buffer mine(gpus, me, {1, 2, 3, 4});
    Buffer others(gpus, 1 - me, {1, 2, 3, 4});
    Ints host{1, 2, 3, 4};
    const auto refused = [&](BufferView in, BufferView out) {
      return thrown_by<UsageError>([&] { group.all_reduce(in, out); });
    };
    EXPECT_THAT(refused(others.view(), others.view()),
                HasSubstr("the input buffer is in the memory of GPU " + std::to_string(1 - me) +
                          ", but in this group this rank works on GPU " + std::to_string(me)));
    EXPECT_THAT(refused(mine.view(), others.view()), HasSubstr("in different memories"));
    EXPECT_THAT(
        refused(host, mine.view()),
        HasSubstr("the input buffer is in host memory, the output buffer in the memory of"));
    BufferView odd = mine.view().slice(0, 1);
    odd.data = static_cast<std::byte*>(odd.data) + 2;
    EXPECT_THAT(refused(odd, odd), HasSubstr("which is not aligned for int32"));
    BufferView beyond = mine.view();
    beyond.count += 1;
    EXPECT_THAT(refused(beyond, beyond), HasSubstr("has 20 bytes, but only 16 are left of the"));
    BufferView freed = mine.view();
    freed.memory = MemoryKind::device;
    freed.data = host.data();
    EXPECT_THAT(refused(freed, freed), HasSubstr("check whether it has been freed"));
    EXPECT_EQ(group.collective_sequence(), 0u) << "something was enqueued";
    EXPECT_EQ(gpus.count("init"), 0);
    // What only NCCL may carry, in host memory.
    ProcessGroup nccl = world.new_group({0, 1}, {.path = "nccl"});
    EXPECT_THAT(thrown_by<UnsupportedError>([&] { nccl.all_reduce(host); }),
                HasSubstr("nccl (all_reduce_nccl): the buffers are in host memory"));
    // Managed memory goes with either.
    Buffer managed(gpus, me, {5, 6, 7, 8}, MemoryKind::managed);
    group.all_reduce(mine.view(), managed.view());
    EXPECT_EQ(managed.values(), (Ints{2, 4, 6, 8}));
    group.barrier();
  });
}

TEST_F(GpuFailures, WhatNcclHasNotIsToldSo) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    ProcessGroup group = world.group();
    Buffer mine(gpus, me, {1, 2});
    ProcessGroup nccl = world.new_group({0, 1}, {.path = "nccl"});
    EXPECT_THAT(thrown_by<UnsupportedError>([&] { nccl.all_reduce(mine.view(), ReduceOp::bor); }),
                HasSubstr("NCCL has no bor"));
    EXPECT_THAT(thrown_by<UnsupportedError>([&] { nccl.recv(mine.view(), any_source); }),
                HasSubstr("any source"));
    EXPECT_THAT(thrown_by<UnsupportedError>([&] { nccl.send(mine.view(), 1 - me, 7); }),
                HasSubstr("tags"));
    EXPECT_THAT(thrown_by<UnsupportedError>([&] { group.all_to_all(mine.view(), mine.view()); }),
                HasSubstr("in-place"));
    EXPECT_EQ(group.collective_sequence(), 0u);
    const Explanation told = group.explain(Request::all_reduce(mine.view(), mine.view()));
    EXPECT_EQ(told.algorithm, "all_reduce_nccl");
    EXPECT_TRUE(tells(told, "threads", "the buffers are in the memory of a GPU"));
    group.barrier();
  });
}

}  // namespace
}  // namespace hymn::test
