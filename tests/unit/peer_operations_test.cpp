// Staging buffers, and operations of kernels that work with peers, without a world: over the toy
// driver, all ranks driven in turns by one thread. The kernels run on threads of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "collectives/cuda/kernel_image.hpp"
#include "collectives/cuda/peer_algorithm.hpp"
#include "collectives/cuda/peer_launch.hpp"
#include "collectives/launch/launch_queue.hpp"
#include "hymn/error.hpp"
#include "tests/unit/eventually.hpp"
#include "tests/unit/running.hpp"
#include "tests/unit/toy_state.hpp"

namespace hymn::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Floats = std::vector<float>;

constexpr std::size_t slot_bytes = 1024;

/// GPUs with a staging buffer each.
class PeerStagingBuffersTest : public testing::Test {
 protected:
  static constexpr std::size_t ranks = 3;

  PeerStagingBuffersTest() {
    toy = &state;
    state.gpus = static_cast<int>(ranks);
    cuda = toy_cuda(state);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      gpus.push_back(std::make_shared<GpuDevice>(cuda, static_cast<int>(rank)));
      own.push_back(
          std::make_shared<IpcStagingBuffer>(gpus[rank], cuda::staging_bytes(slot_bytes)));
      IpcStagingTicket ticket = own[rank]->ticket();
      ticket.rank = static_cast<int>(rank);
      ticket.host = "here";
      tickets.push_back(IpcStagingTicket::read(ticket.packed()));
    }
  }
  ~PeerStagingBuffersTest() override {
    own.clear();
    gpus.clear();
    toy = nullptr;
  }

  /// Why rank 0 does not reach the others.
  std::string refusal() { return PeerStagingBuffers(gpus[0]).open(tickets, 0); }

  ToyState state;
  cuda_api::Functions cuda;
  std::vector<std::shared_ptr<GpuDevice>> gpus;
  std::vector<std::shared_ptr<IpcStagingBuffer>> own;
  std::vector<IpcStagingTicket> tickets;
};

TEST_F(PeerStagingBuffersTest, ThreadsReachEachOtherByAddress) {
  PeerStagingBuffers staging_buffers(gpus[1]);
  EXPECT_EQ(staging_buffers.open(tickets, 1), "");
  for (std::size_t rank = 0; rank < ranks; ++rank)
    EXPECT_EQ(staging_buffers.addresses()[rank], own[rank]->data());
  EXPECT_EQ(state.counts["enable_peer_access"], 2);
  EXPECT_EQ(state.counts["open_handle"], 0);
}

TEST_F(PeerStagingBuffersTest, WhatIsOfAnotherProcessIsOpenedAndClosed) {
  ++tickets[1].process;
  {
    PeerStagingBuffers staging_buffers(gpus[0]);
    EXPECT_EQ(staging_buffers.open(tickets, 0), "");
    EXPECT_EQ(staging_buffers.addresses()[1], own[1]->data());
    EXPECT_EQ(state.counts["open_handle"], 1);
    EXPECT_EQ(state.counts["close_handle"], 0);
  }
  EXPECT_EQ(state.counts["close_handle"], 1);
}

TEST_F(PeerStagingBuffersTest, ReasonsAreTold) {
  tickets[2].host = "elsewhere";
  EXPECT_EQ(refusal(), "rank 2 is on a different host (elsewhere) than rank 0 (here)");
  tickets[2].host = "here";
  tickets[1].uuid.bytes.fill(77);
  ++tickets[1].process;
  state.failures["open_handle"] = cuda_api::invalid_device;
  EXPECT_THAT(refusal(), HasSubstr("rank 0 does not see the GPU of rank 1 (CUDA_VISIBLE_DEVICES"));
  EXPECT_THAT(refusal(), HasSubstr("cuIpcOpenMemHandle"));
}

// As where each process sees its own alone.
TEST_F(PeerStagingBuffersTest, GpusThatAProcessDoesNotSeeAreReached) {
  for (const std::size_t other : {1, 2}) {
    tickets[other].uuid.bytes.fill(static_cast<unsigned char>(70 + other));
    ++tickets[other].process;
  }
  PeerStagingBuffers staging_buffers(gpus[0]);
  EXPECT_EQ(staging_buffers.open(tickets, 0), "");
  EXPECT_EQ(state.counts["open_handle"], 2);
}

TEST_F(PeerStagingBuffersTest, ReasonsOfTheDriverAreTold) {
  state.has_peer_access = false;
  EXPECT_EQ(refusal(), "GPU 0 has no peer access to GPU 1, that of rank 1");
  state.has_peer_access = true;
  ++tickets[1].process;
  state.failures["open_handle"] = cuda_api::out_of_memory;
  EXPECT_THAT(refusal(), HasSubstr("cuIpcOpenMemHandle"));
  tickets[1].has_handle = false;
  EXPECT_EQ(refusal(), "the driver of rank 1 has no IPC handles for other processes");
}

TEST_F(PeerStagingBuffersTest, RanksMayShareAGpu) {
  state.has_peer_access = false;
  const auto sharing = std::make_shared<GpuDevice>(cuda, 1);
  const IpcStagingBuffer staging_buffer(sharing, 64);
  IpcStagingTicket ticket = staging_buffer.ticket();
  ticket.host = "here";
  PeerStagingBuffers staging_buffers(gpus[1]);
  EXPECT_EQ(staging_buffers.open(std::array{tickets[1], ticket}, 0), "");
}

/// The same with channels over the staging buffers.
class PeerOperations : public PeerStagingBuffersTest {
 protected:
  void SetUp() override {
    if (cuda::kernel_image().empty()) GTEST_SKIP() << "hymn was built without nvcc";
    make_channels(Duration::zero());
  }
  void TearDown() override {
    for (const auto& channel : channels) channel->abort();
    EXPECT_TRUE(eventually([this] {
      std::lock_guard lock(state.mutex);
      state.progress();
      return std::all_of(state.streams.begin(), state.streams.end(),
                         [](const ToyStream& stream) { return stream.tasks.empty(); });
    }));
    EXPECT_THAT(state.violations, IsEmpty());
    works.clear();
    algorithms.clear();
    channels.clear();
  }

  void make_channels(Duration limit) {
    works.clear();
    algorithms.clear();
    algorithms.resize(ranks);
    channels.clear();
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const auto staging_buffers = std::make_shared<PeerStagingBuffers>(gpus[rank]);
      EXPECT_EQ(staging_buffers->open(tickets, rank), "");
      channels.push_back(std::make_shared<PeerChannel>(PeerChannelParts{
          .gpu = gpus[rank],
          .queue = std::make_shared<LaunchQueue>(),
          .own = own[rank],
          .staging_buffers = staging_buffers,
          .members = {10, 11, 12},
          .shape = {.rank = static_cast<int>(rank), .size = static_cast<int>(ranks)},
          .slot_bytes = slot_bytes,
          .limit = limit}));
      add_peer_algorithms(algorithms[rank], channels.back());
    }
  }

  static constexpr std::size_t one_shot = 0;
  static constexpr std::size_t two_shot = 1;
  static constexpr std::size_t moves = 2;

  Running& start(std::size_t rank, std::size_t method, const Request& request, int root = -1) {
    Running& running = *works.emplace_back(std::make_unique<Running>());
    running.request = request;
    running.call = {.request = &running.request, .peer = root, .sequence = 1};
    algorithms[rank][method]->prepare(running.storage, running.call).start();
    return running;
  }
  bool finish_all() {
    return eventually([this] {
      bool all = true;
      for (const auto& running : works) {
        if (!running->done) running->done = running->storage.get()->step();
        all = all && running->done;
      }
      return all;
    });
  }
  void* make_stream(std::size_t rank) {
    const GpuDevice::Entry entry(*gpus[rank]);
    return gpus[rank]->make_stream(false);
  }

  Running& start_on(void* stream, std::size_t rank, Request request) {
    request.domain = {OrderingDomain::Kind::stream, stream};
    return start(rank, one_shot, request);
  }
  template <class Act>
  void expect_order_over(Act act);

  std::vector<std::shared_ptr<PeerChannel>> channels;
  std::vector<Algorithms> algorithms;
  std::vector<std::unique_ptr<Running>> works;
};

TEST_F(PeerOperations, BothMethodsReduce) {
  for (const std::size_t method : {one_shot, two_shot}) {
    std::vector<Floats> in(ranks);
    std::vector<Floats> out(ranks, Floats(201));
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      in[rank].assign(201, static_cast<float>(rank + 1));
      start(rank, method, Request::all_reduce(in[rank], out[rank]));
    }
    ASSERT_TRUE(finish_all());
    for (const Floats& mine : out) EXPECT_THAT(mine, Each(6.0F));
  }
}

TEST_F(PeerOperations, WhatIsLargerThanASlotGoesInPieces) {
  std::vector<Floats> values(ranks, Floats(2000));
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::iota(values[rank].begin(), values[rank].end(), static_cast<float>(rank));
    start(rank, two_shot, Request::all_reduce(values[rank], values[rank], ReduceOp::avg));
  }
  ASSERT_TRUE(finish_all());
  Floats wanted(2000);
  std::iota(wanted.begin(), wanted.end(), 1.0F);
  for (const Floats& mine : values) EXPECT_EQ(mine, wanted);
}

TEST_F(PeerOperations, TheOthersGoThroughTheStagingBuffers) {
  std::vector<Floats> gathered(ranks, Floats(6));
  std::vector<Floats> scattered(ranks, Floats(2));
  std::vector<Floats> exchanged(ranks, Floats(3));
  std::vector<Floats> shown(ranks, Floats(4));
  std::vector<Floats> in(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto value = static_cast<float>(rank);
    in[rank] = {value, value + 10, value + 20, value + 30, value + 40, value + 50};
    shown[rank].assign(4, value);
    const std::span<const float> mine = in[rank];
    start(rank, moves,
          Request::all_gather(ConstBufferView(mine.first(2)), OutputBlocks::equal(gathered[rank])));
    start(rank, moves, Request::broadcast(shown[rank], 1), 1);
    start(rank, moves,
          Request::reduce_scatter(InputBlocks::equal(ConstBufferView(mine)), scattered[rank]));
    start(rank, moves,
          Request::all_to_all(InputBlocks::equal(ConstBufferView(mine.first(3))),
                              OutputBlocks::equal(exchanged[rank])));
  }
  ASSERT_TRUE(finish_all());
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto mine = static_cast<float>(rank);
    EXPECT_EQ(gathered[rank], (Floats{0, 10, 1, 11, 2, 12}));
    EXPECT_THAT(shown[rank], Each(1.0F));
    EXPECT_EQ(scattered[rank], (Floats{3 + 60 * mine, 33 + 60 * mine}));
    EXPECT_EQ(exchanged[rank], (Floats{10 * mine, 10 * mine + 1, 10 * mine + 2}));
  }
}

// Two streams of a rank, and one slot that both would use at the same time.
TEST_F(PeerOperations, KernelsOnDifferentStreamsComeOneAfterTheOther) {
  constexpr int rounds = 6;
  std::vector<std::vector<Floats>> out(rounds, std::vector<Floats>(ranks, Floats(200)));
  std::vector<std::vector<Floats>> in = out;
  std::vector<std::array<void*, 2>> streams;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    streams.push_back({make_stream(rank), make_stream(rank)});
  for (std::size_t round = 0; round < rounds; ++round)
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      in[round][rank].assign(200, static_cast<float>(round + rank));
      Request request = Request::all_reduce(in[round][rank], out[round][rank]);
      request.domain = {OrderingDomain::Kind::stream, streams[rank][round % 2]};
      EXPECT_TRUE(start(rank, one_shot, request).storage.get()->is_enqueued());
    }
  ASSERT_TRUE(finish_all());
  for (std::size_t round = 0; round < rounds; ++round)
    for (const Floats& mine : out[round])
      EXPECT_THAT(mine, Each(static_cast<float>(3 * round + 3)));
}

TEST_F(PeerOperations, GraphsAreLaunchedAgainAndAgain) {
  std::vector<Floats> values(ranks, Floats(7, 1.0F));
  std::vector<void*> streams;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    streams.push_back(make_stream(rank));
    auto* const stream = static_cast<ToyStream*>(streams[rank]);
    stream->is_capturing = true;
    Request request = Request::all_reduce(values[rank], values[rank]);
    request.domain = {OrderingDomain::Kind::stream, streams[rank]};
    EXPECT_TRUE(start(rank, two_shot, request).storage.get()->step()) << "it is in the graph";
    stream->is_capturing = false;
  }
  EXPECT_THAT(values[0], Each(1.0F));
  for (int launch = 0; launch < 3; ++launch) {
    std::lock_guard lock(state.mutex);
    for (void* const stream : streams)
      for (const ToyTask& task : static_cast<ToyStream*>(stream)->graph)
        static_cast<ToyStream*>(stream)->tasks.push_back(task);
    state.progress();
  }
  EXPECT_TRUE(eventually([this] {
    std::lock_guard lock(state.mutex);
    state.progress();
    return std::all_of(state.streams.begin(), state.streams.end(),
                       [](const ToyStream& stream) { return stream.tasks.empty(); });
  }));
  for (const Floats& mine : values) EXPECT_THAT(mine, Each(27.0F));
}

/// A kernel of each rank on a stream that something holds up, and one behind it on another; in
/// between `act(rank, stream)`, which gives the other.
template <class Act>
void PeerOperations::expect_order_over(Act act) {
  std::vector<std::array<Floats, 2>> values(ranks, {Floats(7, 1.0F), Floats(7, 1.0F)});
  const auto is_open = std::make_shared<bool>(false);
  std::vector<void*> last;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    void* const first = make_stream(rank);
    {
      std::lock_guard lock(state.mutex);
      toy_enqueue(static_cast<cuda_api::Stream>(first), {.awaits = is_open});
    }
    start_on(first, rank, Request::all_reduce(values[rank][0], values[rank][0]));
    last.push_back(act(rank, first));
    start_on(last.back(), rank, Request::all_reduce(values[rank][1], values[rank][1]));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  {
    std::lock_guard lock(state.mutex);
    state.progress();
    for (void* const stream : last)
      EXPECT_FALSE(static_cast<ToyStream*>(stream)->tasks.empty()) << "it did not wait";
    *is_open = true;
  }
  ASSERT_TRUE(finish_all());
  for (const auto& mine : values)
    for (const Floats& sums : mine) EXPECT_THAT(sums, Each(3.0F));
}

// The graph's kernels come when it is launched; what is not captured keeps its order.
TEST_F(PeerOperations, ACaptureForgetsNoOrder) {
  Floats captured(7);
  expect_order_over([&](std::size_t rank, void*) {
    auto* const stream = static_cast<ToyStream*>(make_stream(rank));
    toy_begin_capture(*stream, cuda_api::capture_global);
    start_on(stream, rank, Request::all_reduce(captured, captured));
    stream->is_capturing = false;
    return make_stream(rank);
  });
}

TEST_F(PeerOperations, AStreamAtTheAddressOfAnotherWaitsForItsKernels) {
  expect_order_over([&](std::size_t rank, void* first) {
    const GpuDevice::Entry entry(*gpus[rank]);
    gpus[rank]->destroy_stream(static_cast<cuda_api::Stream>(first));
    void* const again = make_stream(rank);
    EXPECT_EQ(again, first);
    return again;
  });
}

TEST_F(PeerOperations, WhoDoesNotComeIsNamedAtTheLimit) {
  make_channels(std::chrono::milliseconds(20));
  Floats value(3);
  for (const std::size_t rank : {std::size_t{0}, std::size_t{1}})
    start(rank, one_shot, Request::all_reduce(value, value));
  try {
    finish_all();
    FAIL() << "rank 12 never came";
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the GPU of rank 12 did not arrive"));
    EXPECT_EQ(error.context().missing, std::vector<int>{12});
  }
  works.erase(works.begin());
}

TEST_F(PeerOperations, WhatIsGivenUpEnds) {
  Floats value(3);
  Running& running = start(0, two_shot, Request::all_reduce(value, value));
  const auto abandoned = running.storage.get()->abandon("somebody has failed");
  ASSERT_NE(abandoned, nullptr);
  EXPECT_TRUE(eventually([&abandoned] { return abandoned->done(); }));
  Floats other(3);
  Running& next = start(0, two_shot, Request::all_reduce(other, other));
  EXPECT_THROW(next.storage.get()->step(), AbortedError);
  works.clear();
}

class PeerProbes : public PeerOperations {};

TEST_F(PeerProbes, StagingBuffersAreTriedByMovingBytes) {
  const std::vector<std::uint32_t> numbers = {7, 8, 9};
  for (std::size_t rank = 0; rank < ranks; ++rank)
    own[rank]->write(offsetof(cuda::StagingHead, number),
                     std::as_bytes(std::span(&numbers[rank], 1)));
  const Deadline soon = Deadline::after(Duration(std::chrono::seconds(30)));
  for (std::size_t rank = 0; rank < ranks; ++rank)
    EXPECT_EQ(channels[rank]->probe(numbers, soon), "");
  EXPECT_EQ(channels[1]->probe({7, 8, 10}, soon),
            "rank 11 reads wrong data from the GPU of rank 12");
}

TEST(PeerRules, ReasonsAreTold) {
  Algorithms algorithms;
  add_no_peer_algorithms(algorithms, "the ranks are on 2 hosts");
  Floats value(3);
  EXPECT_EQ(algorithms[0]->can_run(Request::all_reduce(value, value)).reason,
            "the ranks are on 2 hosts");
}

// Whoever comes so far with what is not in the table launches nothing.
TEST(PeerRules, WhatTheTableHasNotHasNoName) {
  const auto name = [](DataType dtype, ReduceKind kind) {
    return std::string(kernel_name(OpType::reduce, PeerMethod::windows, dtype, kind));
  };
  EXPECT_EQ(name(DataType::float64, ReduceKind::sum), "hymn_reduce_float64_sum");
  EXPECT_THROW(name(DataType::float64, ReduceKind::max), Error);
  EXPECT_THROW(name(DataType::uint8, ReduceKind::sum), Error);
}

TEST_F(PeerOperations, WhatNoKernelHasIsRefused) {
  std::vector<double> doubles(3);
  Floats large(slot_bytes / sizeof(float) + 1);
  const auto refusal = [&](std::size_t method, const Request& request) {
    return algorithms[0][method]->can_run(request).reason;
  };
  EXPECT_EQ(refusal(one_shot, Request::all_reduce(doubles, doubles)), "");
  EXPECT_EQ(refusal(one_shot, Request::all_reduce(doubles, doubles, ReduceOp::max)),
            "there is no kernel for max of float64");
  EXPECT_EQ(refusal(two_shot, Request::all_reduce(large, large, ReduceOp::product)),
            "there is no kernel for product of float32");
  EXPECT_EQ(refusal(one_shot, Request::all_reduce(large, large)),
            "it is larger than the 1024 bytes of a staging buffer");
  EXPECT_EQ(refusal(two_shot, Request::all_reduce(large, large)), "");
  EXPECT_EQ(refusal(moves, Request::broadcast(doubles, 0)), "");
  EXPECT_EQ(refusal(moves, Request::reduce(large, large, 0)), "");
}

}  // namespace
}  // namespace hymn::test
