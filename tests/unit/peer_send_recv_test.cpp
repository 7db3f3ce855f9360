// Sends and receives of groups through peer memory, over toy GPUs: results, order, choice,
// failures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "collectives/cuda/kernel_image.hpp"
#include "collectives/cuda/peer_rules.hpp"
#include "hymn/error.hpp"
#include "tests/unit/toy_gpus.hpp"

namespace hymn::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Ints = std::vector<std::int32_t>;
using Buffer = ToyBuffer<std::int32_t>;

/// More than two boxes hold.
constexpr std::size_t many = 5 * peer_box_bytes / sizeof(std::int32_t) + 3;

class PeerSendRecv : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (cuda::kernel_image().empty()) GTEST_SKIP() << "hymn was built without nvcc";
  }
  ~PeerSendRecv() override { EXPECT_THAT(gpus.violations(), IsEmpty()); }

  static Config config(const char* path = "cuda_p2p,nccl,staged,threads") {
    Config config;
    config.path = PathPolicy::parse(path, "HYMN_PATH");
    return config;
  }
  void run(const std::function<void(World&)>& body, const char* path = nullptr) {
    gpus.run(body, {}, path == nullptr ? config() : config(path));
    EXPECT_EQ(gpus.count("init"), 0) << "NCCL has been used";
  }

  ToyGpus gpus{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Ranks, PeerSendRecv, testing::Values(2, 3, 4));

/// What a rank sends, and by what number.
Ints content(int rank, int number, std::size_t count) {
  Ints values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = rank * 1000003 + number * 10007 + static_cast<int>(i);
  return values;
}
int next_of(const World& world) { return (world.rank() + 1) % world.size(); }
int before(const World& world) { return (world.rank() + world.size() - 1) % world.size(); }

std::uint64_t uses_of_algorithm(const ProcessGroup& group, std::string_view algorithm) {
  for (const AlgorithmUse& use : group.uses())
    if (use.algorithm == algorithm) return use.count;
  return 0;
}

std::string reason_of(const ProcessGroup& group, const Request& request) {
  for (const Candidate& each : group.explain(request).candidates)
    if (each.algorithm == "send_recv_windows") return each.reason;
  return "there is no such candidate";
}

TEST_P(PeerSendRecv, NeighboursSendToEachOtherAtTheSameTime) {
  run([this](World& world) {
    const int me = world.rank();
    ProcessGroup& group = world.group();
    std::vector<std::unique_ptr<Buffer>> kept;
    for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, many}) {
      Buffer& out = *kept.emplace_back(std::make_unique<Buffer>(gpus, me, content(me, 0, count)));
      Buffer& in = *kept.emplace_back(std::make_unique<Buffer>(gpus, me, Ints(count)));
      Work sent = group.isend(out.view(), next_of(world));
      Work received = group.irecv(in.view(), before(world));
      sent.wait();
      received.wait();
      EXPECT_TRUE(in.values() == content(before(world), 0, count)) << count;
      EXPECT_EQ(received.status().source, before(world));
      EXPECT_EQ(received.status().count, count);
    }
    EXPECT_EQ(uses_of_algorithm(group, "send_recv_windows"), 6u);
    group.barrier();
  });
}

TEST_P(PeerSendRecv, BlockingOnesGoRoundTheRing) {
  run([this](World& world) {
    const int me = world.rank();
    Buffer buffer(gpus, me, content(me, 0, many));
    if (me == 0) world.group().send(buffer.view(), next_of(world));
    world.group().recv(buffer.view(), before(world));
    if (me != 0) world.group().send(buffer.view(), next_of(world));
    EXPECT_TRUE(buffer.values() == content(0, 0, many));
    world.group().barrier();
  });
}

TEST_P(PeerSendRecv, TheyKeepTheirOrder) {
  run([this](World& world) {
    const int me = world.rank();
    std::vector<std::unique_ptr<Buffer>> kept;
    std::vector<Work> works;
    constexpr int messages = 20;
    for (int i = 0; i < messages; ++i) {
      const std::size_t count = static_cast<std::size_t>(i % 7) * 20000;
      kept.push_back(std::make_unique<Buffer>(gpus, me, content(me, i, count)));
      const BufferView out(kept.back()->data(), count, DataType::int32, MemoryKind::device);
      works.push_back(world.group().isend(out, next_of(world)));
      kept.push_back(std::make_unique<Buffer>(gpus, me, Ints(count)));
      const BufferView in(kept.back()->data(), count, DataType::int32, MemoryKind::device);
      works.push_back(world.group().irecv(in, before(world)));
    }
    for (auto work = works.rbegin(); work != works.rend(); ++work) work->wait();
    for (int i = 0; i < messages; ++i) {
      const Ints values = kept[2 * static_cast<std::size_t>(i) + 1]->values();
      EXPECT_TRUE(values == content(before(world), i, values.size())) << i;
    }
    world.group().barrier();
  });
}

TEST_P(PeerSendRecv, AMessageThatWaitsHoldsUpNoOthers) {
  if (GetParam() < 3) return;
  std::atomic<bool> has_come = false;
  run([&](World& world) {
    const int me = world.rank();
    Buffer buffer(gpus, me, content(me, 0, many));
    Buffer other(gpus, me, content(me, 1, 10));
    ProcessGroup& group = world.group();
    Buffer sum(gpus, me, {me});
    if (me == 0) {
      Work late = group.irecv(buffer.view(), 1);
      group.recv(other.view(), 2);
      EXPECT_EQ(other.values(), content(2, 1, 10));
      group.all_reduce(sum.view());
      has_come = true;
      late.wait();
      EXPECT_TRUE(buffer.values() == content(1, 0, many));
    } else {
      if (me == 2) group.send(other.view(), 0);
      group.all_reduce(sum.view());
      if (me == 1) {
        EXPECT_TRUE(eventually([&] { return has_come.load(); }));
        group.send(buffer.view(), 0);
      }
    }
    group.barrier();
  });
}

// --- On streams

TEST_P(PeerSendRecv, OnAStreamTheyComeBetweenWhatIsBeforeAndAfter) {
  run([this](World& world) {
    const int me = world.rank();
    void* const stream = gpus.make_stream(me);
    Buffer out(gpus, me, Ints(500));
    Buffer in(gpus, me, Ints(500));
    Buffer copy(gpus, me, Ints(500));
    gpus.enqueue(stream, [&] { std::fill_n(out.data(), 500, me + 1); });
    world.group().send(out.view(), next_of(world), 0, {.stream = stream});
    gpus.enqueue(stream, [&] { std::fill_n(out.data(), 500, -1); });
    world.group().recv(in.view(), before(world), 0, {.stream = stream});
    gpus.enqueue(stream, [&] { std::copy_n(in.data(), 500, copy.data()); });
    EXPECT_TRUE(gpus.synchronize(stream));
    EXPECT_THAT(copy.values(), Each(before(world) + 1));
    world.group().wait_for_pending_works();
    world.group().barrier();
  });
}

/// Each waits for the other's receive: as one batch they go together, to the same peer, too.
TEST_P(PeerSendRecv, ABatchOnOneStreamHoldsMoreThanTheBoxes) {
  run([this](World& world) {
    const int me = world.rank();
    void* const stream = gpus.make_stream(me);
    Buffer out(gpus, me, content(me, 0, many));
    Buffer more(gpus, me, content(me, 1, many + 8));
    Buffer in(gpus, me, Ints(many));
    Buffer more_in(gpus, me, Ints(many + 8));
    const std::vector<P2POp> all = {
        P2POp::send(out.view(), next_of(world)), P2POp::send(more.view(), next_of(world)),
        P2POp::recv(in.view(), before(world)), P2POp::recv(more_in.view(), before(world))};
    (void)world.group().batch_isend_irecv(all, {.stream = stream});
    EXPECT_TRUE(gpus.synchronize(stream));
    EXPECT_TRUE(in.values() == content(before(world), 0, many));
    EXPECT_TRUE(more_in.values() == content(before(world), 1, many + 8));
    world.group().wait_for_pending_works();
    world.group().barrier();
  });
}

/// One batch on one side, single calls on the other.
TEST_P(PeerSendRecv, ABatchNeedNotBeOneOnTheOtherSide) {
  run([this](World& world) {
    const int me = world.rank();
    if (me > 1) return;
    void* const stream = gpus.make_stream(me);
    Buffer a(gpus, me, content(me, 0, 10));
    Buffer b(gpus, me, content(me, 1, 20));
    Buffer c(gpus, me, content(me, 2, 30));
    ProcessGroup& group = world.group();
    if (me == 0) {
      const std::vector<P2POp> all = {P2POp::send(a.view(), 1), P2POp::send(b.view(), 1),
                                      P2POp::recv(c.view(), 1)};
      (void)group.batch_isend_irecv(all, {.stream = stream});
      EXPECT_TRUE(gpus.synchronize(stream));
      EXPECT_EQ(c.values(), content(1, 2, 30));
    } else {
      group.recv(a.view(), 0, 0, {.stream = stream});
      group.recv(b.view(), 0, 0, {.stream = stream});
      group.send(c.view(), 0, 0, {.stream = stream});
      EXPECT_TRUE(gpus.synchronize(stream));
      EXPECT_EQ(a.values(), content(0, 0, 10));
      EXPECT_EQ(b.values(), content(0, 1, 20));
    }
    group.wait_for_pending_works();
  });
}

/// The n-th that is sent is the n-th that is received, whatever streams they are on.
TEST_P(PeerSendRecv, TheOrderIsThatOfTheCallsOverAllStreams) {
  run([this](World& world) {
    const int me = world.rank();
    ProcessGroup& group = world.group();
    std::vector<void*> streams = {nullptr, gpus.make_stream(me), gpus.make_stream(me)};
    std::vector<std::unique_ptr<Buffer>> kept;
    std::vector<Work> works;
    for (int i = 0; i < 12; ++i) {
      void* const out_on = streams[static_cast<std::size_t>(i * 5 % 3)];
      void* const in_on = streams[static_cast<std::size_t>(i * 7 / 2 % 3)];
      kept.push_back(std::make_unique<Buffer>(gpus, me, content(me, i, 100)));
      works.push_back(group.isend(kept.back()->view(), next_of(world), 0, {.stream = out_on}));
      kept.push_back(std::make_unique<Buffer>(gpus, me, Ints(100)));
      works.push_back(group.irecv(kept.back()->view(), before(world), 0, {.stream = in_on}));
    }
    for (Work& work : works) work.wait();
    for (int i = 0; i < 12; ++i)
      EXPECT_EQ(kept[2 * static_cast<std::size_t>(i) + 1]->values(),
                content(before(world), i, 100));
    group.barrier();
  });
}

TEST_P(PeerSendRecv, AGraphHoldsThem) {
  run([this](World& world) {
    const int me = world.rank();
    void* const stream = gpus.make_stream(me);
    Buffer out(gpus, me, {0});
    Buffer in(gpus, me, {0});
    gpus.capture(stream);
    const std::vector<P2POp> both = {P2POp::send(out.view(), next_of(world)),
                                     P2POp::recv(in.view(), before(world))};
    world.group().batch_isend_irecv(both, {.stream = stream}).wait();
    gpus.end_capture(stream);
    for (int i = 1; i <= 3; ++i) {
      gpus.enqueue(stream, [&, i] { *out.data() = 10 * i + me; });
      gpus.launch_graph(stream);
      EXPECT_TRUE(gpus.synchronize(stream));
      EXPECT_EQ(in.values(), Ints{10 * i + before(world)});
    }
    world.group().barrier();
  });
}

// --- The choice

class PeerSendRecvChoice : public PeerSendRecv {};
INSTANTIATE_TEST_SUITE_P(Ranks, PeerSendRecvChoice, testing::Values(2));

TEST_P(PeerSendRecvChoice, ReasonsAreTold) {
  run([this](World& world) {
    ProcessGroup& group = world.group();
    Buffer buffer(gpus, world.rank(), {1, 2});
    const int peer = 1 - world.rank();
    const Explanation told = group.explain(Request::send(buffer.view(), peer));
    EXPECT_EQ(told.path, "cuda_p2p");
    EXPECT_EQ(told.algorithm, "send_recv_windows");
    EXPECT_EQ(reason_of(group, Request::send(buffer.view(), peer, 7)),
              "messages through staging buffers have no tags");
    EXPECT_EQ(reason_of(group, Request::recv(buffer.view(), any_source)),
              "staging buffers have no messages from any source");
    world.group().barrier();
  });
}

TEST_P(PeerSendRecvChoice, TagsAndAnySourceAreRefusedEvenBehindOthers) {
  run(
      [this](World& world) {
        ProcessGroup& group = world.group();
        const int me = world.rank();
        Buffer buffer(gpus, me, {me, 2});
        if (me == 0)
          group.send(buffer.view(), 1);
        else
          group.recv(buffer.view(), 0);
        EXPECT_THAT(thrown_by<UnsupportedError>([&] { group.send(buffer.view(), 1 - me, 7); }),
                    HasSubstr("have no tags"));
        EXPECT_THAT(thrown_by<UnsupportedError>([&] { group.recv(buffer.view(), any_source); }),
                    HasSubstr("from any source"));
        group.barrier();
      },
      "cuda_p2p,threads");
}

TEST_P(PeerSendRecvChoice, WithoutBeingNamedItIsNotTaken) {
  gpus.run([this](World& world) {
    Buffer buffer(gpus, world.rank(), {1});
    const Request send = Request::send(buffer.view(), 1 - world.rank());
    EXPECT_EQ(reason_of(world.group(), send),
              "messages take it only where HYMN_PATH names cuda_p2p");
    EXPECT_EQ(world.group().explain(send).path, "nccl");
    world.group().barrier();
  });
  Config c10d;
  c10d.p2p_compat = P2pCompat::c10d;
  gpus.run(
      [this](World& world) {
        Buffer buffer(gpus, world.rank(), {1});
        EXPECT_EQ(reason_of(world.group(), Request::send(buffer.view(), 1 - world.rank())),
                  "HYMN_P2P_COMPAT=c10d: only all_reduce of bfloat16 with sum");
        world.group().barrier();
      },
      {}, c10d);
  gpus.run_on_hosts(
      {1, 1},
      [this](World& world) {
        Buffer buffer(gpus, world.rank(), {1});
        EXPECT_EQ(reason_of(world.group(), Request::send(buffer.view(), 1 - world.rank())),
                  "the ranks are on 2 hosts");
        world.group().barrier();
      },
      config("cuda_p2p,nccl,staged,threads,exchange"));
}

TEST_P(PeerSendRecvChoice, GroupsMaySayItForThemselves) {
  gpus.run([this](World& world) {
    ProcessGroup group = world.new_group({0, 1}, {.path = "cuda_p2p"});
    const int me = world.rank();
    Buffer out(gpus, me, {me});
    Buffer in(gpus, me, {7});
    Work sent = group.isend(out.view(), 1 - me);
    group.recv(in.view(), 1 - me);
    sent.wait();
    EXPECT_EQ(in.values(), Ints{1 - me});
    world.group().barrier();
  });
  EXPECT_EQ(gpus.count("init"), 0);
}

// Groups of the same ranks use the same staging buffers.
TEST_P(PeerSendRecvChoice, WhatNobodyHasReceivedIsNotForTheNextGroup) {
  std::vector<std::unique_ptr<Buffer>> buffers;
  for (int gpu = 0; gpu < 2; ++gpu) buffers.push_back(std::make_unique<Buffer>(gpus, gpu, Ints{0}));
  run([&](World& world) {
    const int me = world.rank();
    Buffer& buffer = *buffers[static_cast<std::size_t>(me)];
    for (int round = 1; round <= 3; ++round) {
      ProcessGroup group = world.new_group({0, 1});
      if (me == 0) {
        *buffer.data() = round;
        group.send(buffer.view(), 1);
        *buffer.data() = -round;
        group.send(buffer.view(), 1);  // which rank 1 leaves there
      } else {
        group.recv(buffer.view(), 0);
        EXPECT_EQ(buffer.values(), Ints{round});
      }
      group.destroy();
      world.group().barrier();
    }
  });
}

// --- What goes wrong

class PeerSendRecvFailures : public PeerSendRecv {};
INSTANTIATE_TEST_SUITE_P(Ranks, PeerSendRecvFailures, testing::Values(2));

TEST_P(PeerSendRecvFailures, APeerThatDoesNotComeIsNotWaitedForForEver) {
  for (const bool is_send : {true, false}) {
    std::atomic<bool> is_over = false;
    gpus.run(
        [&](World& world) {
          if (world.rank() == 1) {
            EXPECT_TRUE(eventually([&is_over] { return is_over.load(); }));
            return;
          }
          Buffer buffer(gpus, 0, Ints(many));
          const CallOptions soon{.timeout = std::chrono::milliseconds(50)};
          EXPECT_THROW(is_send ? world.group().send(buffer.view(), 1, 0, soon)
                               : void(world.group().recv(buffer.view(), 1, 0, soon)),
                       TimeoutError);
          EXPECT_THROW(world.group().all_reduce(buffer.view()), Error);
          is_over = true;
        },
        {}, config());
  }
}

TEST_P(PeerSendRecvFailures, AnotherSizeIsAnErrorOfBoth) {
  std::vector<std::unique_ptr<Buffer>> buffers;
  for (const std::size_t count : {many, many + 1})
    buffers.push_back(
        std::make_unique<Buffer>(gpus, static_cast<int>(buffers.size()), Ints(count)));
  std::atomic<int> of_usage = 0;
  gpus.run(
      [&](World& world) {
        const int me = world.rank();
        Buffer& buffer = *buffers[static_cast<std::size_t>(me)];
        try {
          if (me == 0)
            world.group().send(buffer.view(), 1);
          else
            world.group().recv(buffer.view(), 0);
          ADD_FAILURE() << "the sizes are not the same";
        } catch (const UsageError& error) {
          ++of_usage;
          EXPECT_THAT(error.what(), HasSubstr("give the same count on both sides"));
          if (me == 1) {
            EXPECT_THAT(error.what(),
                        HasSubstr("rank 0 has sent " + std::to_string(4 * many) + " bytes"));
          }
        } catch (const Error& error) {  // told by the other
          EXPECT_THAT(error.what(), HasSubstr("rank"));
        }
        EXPECT_THROW(world.group().send(buffer.view(), 1 - me), Error);
      },
      {}, config());
  EXPECT_GE(of_usage, 1);
}

// Rank 0 waits for a collective of NCCL on its stream, and hands its result on. When that is given
// up the stream goes on.
TEST_P(PeerSendRecvFailures, WhatNcclHasGivenUpIsNotSent) {
  std::atomic<bool> has_failed = false;
  const auto stale = std::make_unique<ToyBuffer<double>>(gpus, 0, std::vector<double>(4, 1.0));
  const auto in = std::make_unique<ToyBuffer<double>>(gpus, 1, std::vector<double>(4, -1.0));
  gpus.run(
      [&](World& world) {
        ProcessGroup& group = world.group();
        if (world.rank() == 0) {
          void* const stream = gpus.make_stream(0);
          // There are no kernels for double: NCCL carries it.
          group.all_reduce(stale->view());
          gpus.hold("collective");
          group.barrier();
          Work sum = group.all_reduce_async(
              stale->view(), {}, {.timeout = std::chrono::milliseconds(100), .stream = stream});
          group.send(stale->view(), 1, 0, {.stream = stream});
          EXPECT_THROW(sum.wait(), Error);
          has_failed = true;
          EXPECT_TRUE(gpus.synchronize(stream)) << "the stream has not gone on";
          gpus.release();
        } else {
          group.all_reduce(in->view());
          group.barrier();
          Work received = group.irecv(in->view(), 0);
          EXPECT_TRUE(eventually([&has_failed] { return has_failed.load(); }));
          EXPECT_THROW(received.wait(std::chrono::milliseconds(500)), Error);
          EXPECT_THAT(in->values(), Each(0.0));
        }
      },
      {}, config());
}

}  // namespace
}  // namespace hymn::test
