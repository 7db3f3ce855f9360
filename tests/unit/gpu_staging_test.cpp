// What is staged through memory of the host: groups in which some ranks have no GPU, and what NCCL
// has not. Ranks as threads over doubles of the driver and of NCCL.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>

#include "tests/unit/toy_gpu_test.hpp"

namespace hymn::test {
namespace {

class GpuStaging : public ToyGpuTest {};

std::string reason_against(const Explanation& told, std::string_view path) {
  for (const Candidate& other : told.candidates)
    if (other.path == path) return other.reason;
  return "no such path";
}

/// Host memory on ranks without a GPU, the memory of the GPU on the others.
class Anywhere {
 public:
  Anywhere(ToyGpus& gpus, int rank, Ints values) : host_(std::move(values)) {
    if (rank < 2) device_ = std::make_unique<Buffer>(gpus, rank, host_);
  }
  BufferView view() { return device_ ? device_->view() : BufferView(host_); }
  Ints values() const { return device_ ? device_->values() : host_; }

 private:
  Ints host_;
  std::unique_ptr<Buffer> device_;
};

TEST_F(GpuStaging, GroupsMayMixRanksWithAndWithoutGpus) {
  gpus.run_with_others(3, [this](World& world) {
    const int me = world.rank();
    ProcessGroup group = world.group();
    Anywhere sum(gpus, me, {me + 1, 10});
    if (me < 2) {
      const Explanation told = group.explain(Request::all_reduce(sum.view(), sum.view()));
      EXPECT_EQ(told.path, "staged");
      EXPECT_EQ(told.algorithm, "all_reduce_staged");
      EXPECT_EQ(reason_against(told, "nccl"), "1 of 3 ranks have no GPU");
    }
    group.all_reduce(sum.view());
    EXPECT_EQ(sum.values(), (Ints{6, 30}));

    Anywhere cast(gpus, me, {me, me});
    group.broadcast(cast.view(), 1);
    EXPECT_EQ(cast.values(), (Ints{1, 1}));

    Anywhere mine(gpus, me, {100 + me});
    Anywhere all(gpus, me, {0, 0, 0});
    Work work = group.all_gather_async(mine.view(), all.view());
    std::int32_t between = 1;
    group.all_reduce(view_of(between));  // keeps its place behind it
    EXPECT_EQ(between, 3);
    work.wait();
    EXPECT_EQ(all.values(), (Ints{100, 101, 102}));

    Anywhere reduced(gpus, me, {me + 1});
    Anywhere result(gpus, me, {-1});
    group.reduce(reduced.view(), result.view(), 2, ReduceOp::max);
    EXPECT_EQ(result.values(), Ints{me == 2 ? 3 : -1});

    Anywhere parts(gpus, me, {1, 2, 3});
    Anywhere part(gpus, me, {0});
    group.scatter(parts.view(), part.view(), 0);
    EXPECT_EQ(part.values(), Ints{me + 1});

    Anywhere swapped(gpus, me, {10 * me, 10 * me + 1, 10 * me + 2});
    group.all_to_all(swapped.view(), swapped.view());
    EXPECT_EQ(swapped.values(), (Ints{me, 10 + me, 20 + me}));
    group.barrier();
  });
  EXPECT_EQ(gpus.count("init"), 0);
}

TEST_F(GpuStaging, MessagesOfAnyLengthComeAcross) {
  gpus.run_with_others(3, [this](World& world) {
    const int me = world.rank();
    ProcessGroup group = world.group();
    Anywhere buffer(gpus, me, {me, me, me});
    if (me == 2) group.send(buffer.view().slice(0, 2), 0, 7);
    if (me == 0) {
      const RecvStatus status = group.recv(buffer.view(), any_source, 7);
      EXPECT_EQ(status.source, 2);
      EXPECT_EQ(status.count, 2u);
      EXPECT_EQ(buffer.values(), (Ints{2, 2, 0})) << "more came back than was received";
    }
  });
}

TEST_F(GpuStaging, CarriesWhatNcclHasNot) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    Buffer bits(gpus, me, {1 << me});
    const Request request = Request::all_reduce(bits.view(), bits.view(), ReduceOp::bor);
    const Explanation told = world.group().explain(request);
    EXPECT_EQ(told.path, "staged");
    EXPECT_EQ(reason_against(told, "nccl"), "NCCL has no bor");
    world.group().run(request);
    EXPECT_EQ(bits.values(), Ints{3});
    // The smallest of floats, with the NaN that hymn promises.
    ToyBuffer<float> least(gpus, me, {me == 0 ? std::numeric_limits<float>::quiet_NaN() : 1.0f});
    world.group().all_reduce(least.view(), ReduceOp::min);
    EXPECT_TRUE(std::isnan(least.values()[0]));
  });
  EXPECT_EQ(gpus.count("all_reduce"), 0);
}

TEST_F(GpuStaging, KeepsTheOrderOfStreams) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    void* const stream = gpus.make_stream(me);
    Buffer bits(gpus, me, {0});
    Buffer copy(gpus, me, {0});
    gpus.enqueue(stream, [&] { *bits.data() = 1 << me; });
    world.group().all_reduce(bits.view(), ReduceOp::bor, {.stream = stream});
    gpus.enqueue(stream, [&] { *copy.data() = *bits.data(); });
    EXPECT_TRUE(gpus.synchronize(stream));
    EXPECT_EQ(copy.values(), Ints{3});
    gpus.capture(stream);
    std::string text;
    try {
      world.group().all_reduce(bits.view(), ReduceOp::bor, {.stream = stream});
    } catch (const UnsupportedError& error) {
      text = error.what();
    }
    EXPECT_THAT(text, HasSubstr("a CUDA graph cannot capture what is staged"));
    world.group().barrier();
  });
}

TEST_F(GpuStaging, BarriersOnStreamsAwaitRanksWithoutGpus) {
  gpus.run_with_others(3, [this](World& world) {
    const int me = world.rank();
    ProcessGroup group = world.group();
    if (me == 2) {
      group.barrier();
    } else {
      void* const stream = gpus.make_stream(me);
      bool before = false;
      gpus.enqueue(stream, [&before] { before = true; });
      group.barrier({.stream = stream});
      EXPECT_TRUE(before);
      EXPECT_TRUE(gpus.synchronize(stream));
    }
    group.barrier();
  });
  EXPECT_EQ(gpus.count("all_reduce"), 0);
}

TEST_F(GpuStaging, CanBeForbidden) {
  gpus.run([this](World& world) {
    Buffer bits(gpus, world.rank(), {1});
    ProcessGroup group = world.new_group({0, 1}, {.path = "^staged"});
    std::string text;
    try {
      group.all_reduce(bits.view(), ReduceOp::bor);
    } catch (const UnsupportedError& error) {
      text = error.what();
    }
    EXPECT_THAT(text, HasSubstr("nccl (all_reduce_nccl): NCCL has no bor"));
    EXPECT_THAT(text, HasSubstr("staged (all_reduce_staged): not allowed by the path setting"));
    group.barrier();
  });
}

TEST_F(GpuStaging, ALateRankIsNamed) {
  gpus.run_with_others(3, [this](World& world) {
    ProcessGroup group = world.group();
    if (world.rank() < 2) {
      Anywhere sum(gpus, world.rank(), {1});
      std::string text;
      try {
        group.all_reduce(sum.view(), {}, {.timeout = std::chrono::milliseconds(100)});
      } catch (const Error& error) {
        text = error.what();
      }
      EXPECT_THAT(text, HasSubstr("all_reduce #1"));
      EXPECT_THAT(text, HasSubstr("rank 2"));
    }
    // Who is late is there all the time.
    EXPECT_TRUE(eventually([&group] { return group.is_aborted(); }));
  });
}

// What stands before the copies on the stream may take for ever. No peer is to blame for that.
TEST_F(GpuStaging, AStreamThatStandsStillRunsIntoTheLimit) {
  gpus.run([this](World& world) {
    ProcessGroup group = world.new_group({0, 1}, {.description = "staged", .path = "^nccl"});
    const int me = world.rank();
    Buffer sum(gpus, me, {1});
    group.all_reduce(sum.view());
    world.group().all_reduce(sum.view());
    group.barrier();
    if (me == 0) gpus.hold("collective");
    group.barrier();
    void* const stream = gpus.make_stream(me);
    (void)world.group().all_reduce_async(sum.view(), {}, {.stream = stream});
    const CallOptions hurried = {.timeout = std::chrono::milliseconds(30), .stream = stream};
    const std::string text =
        thrown_by<TimeoutError>([&] { group.all_reduce(sum.view(), {}, hurried); });
    EXPECT_THAT(text, HasSubstr("the GPU has not reached the copies of what is staged"));
    EXPECT_THAT(text, HasSubstr("nothing was sent"));
    EXPECT_THAT(text, HasSubstr("staged"));
    EXPECT_FALSE(group.is_aborted());
    group.barrier();
    gpus.release();
    ASSERT_TRUE(gpus.synchronize(stream));
    EXPECT_EQ(sum.values(), Ints{8});
    group.all_reduce(sum.view());
    EXPECT_EQ(sum.values(), Ints{16});
  });
}

}  // namespace
}  // namespace hymn::test
