// Operations over rings: how much moves in one call, and how they are given up.
#include "p2p/shm/shm_port.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "collectives/pairwise/pairwise.hpp"
#include "collectives/pairwise/pairwise_models.hpp"
#include "collectives/shm/shm_algorithms.hpp"
#include "collectives/shm/shm_models.hpp"
#include "hymn/error.hpp"
#include "hymn/request.hpp"
#include "p2p/shm/ring_pipes.hpp"
#include "tests/unit/shm_office.hpp"
#include "tests/unit/shm_team.hpp"

namespace hymn::test {
namespace {

/// A channel of two, and the ring from one to the other as both see it.
struct Ring {
  Ring() {
    RegionPlan plan;
    const int control_block = ShmChannel::add_control_block(plan);
    areas = RingAreas::add_to(plan, 2);
    const auto heap = std::make_shared<HeapMemory>(plan, 2);
    channel = std::make_unique<ShmChannel>(HeapMemory::view(heap, 0), std::vector<int>{0, 1}, false,
                                           control_block, [](const std::string&) {});
    memory = RingMemory::of(channel->region(), areas, 0, 1);
  }
  RingAreas areas;
  std::unique_ptr<ShmChannel> channel;
  RingMemory memory;
};

constexpr std::size_t stream = std::size_t{64} << 20;

// However much there is: other threads wait for the lock.
TEST(RingPipes, ReadAFewMegabytesAtOnce) {
  Ring ring;
  RingPipes pipes(*ring.channel, ring.areas);
  RingReader reader(ring.memory);
  reader.open({.bytes = stream, .pipe_bytes = ring.memory.sizes.near_pipe_bytes});
  ring.memory.counters->pipe_written = stream;
  std::size_t done = 0;
  for (bool all = false; !all;) {
    const std::size_t before = done;
    all = pipes.read(reader, nullptr, stream, done);
    ASSERT_GT(done, before);
    ASSERT_LE(done - before, RingPipes::most_at_once);
  }
  EXPECT_EQ(done, stream);
}

TEST(RingPipes, ReserveTheRingsBeforeTheFirstMessage) {
  Ring ring;
  RingPipes pipes(*ring.channel, ring.areas);
  EXPECT_TRUE(ring.channel->region().plan().is_on_demand(ring.areas.near));
  EXPECT_NO_THROW(pipes.reserve());

  RegionPlan plan;
  const int control_block = ShmChannel::add_control_block(plan);
  const RingAreas areas = RingAreas::add_to(plan, 2);
  auto heap = HeapMemory::view(std::make_shared<HeapMemory>(plan, 2), 0);
  const auto poor = std::make_shared<ShmChannel>(
      std::make_unique<ShortRegion>(std::move(heap), 4096), std::vector<int>{0, 1}, false,
      control_block, [](const std::string&) {});
  ShmMail mail(poor, areas);
  std::byte byte{};
  Sending message;
  message.to = 1;
  message.data = &byte;
  message.bytes = 1;
  EXPECT_THROW(mail.start(message), ResourceError);
}

TEST(RingPipes, WriteAFewMegabytesAtOnce) {
  Ring ring;
  RingPipes pipes(*ring.channel, ring.areas);
  RingWriter writer(ring.memory);
  std::atomic<bool> stop{false};
  // Reads at no cost.
  std::thread reader([&] {
    while (!stop) ring.memory.counters->pipe_read = ring.memory.counters->pipe_written.load();
  });
  const std::vector<std::byte> data(stream);
  pipes.choose(writer, stream);
  writer.announce(1, data.data(), stream);
  std::size_t done = 0;
  for (bool all = false; !all; std::this_thread::yield()) {
    const std::size_t before = done;
    all = pipes.write(writer, data.data(), stream, done);
    EXPECT_LE(done - before, RingPipes::most_at_once);
  }
  EXPECT_EQ(done, stream);
  stop = true;
  reader.join();
}

TEST(ShmPort, ACollectiveThatIsGivenUpIsToldToAll) {
  const std::vector<std::int32_t> in(300, 1);
  std::vector<std::int32_t> out[2] = {std::vector<std::int32_t>(900), {}};
  out[1] = out[0];
  using Make = std::unique_ptr<Algorithm> (*)(const AlgorithmModel&, std::shared_ptr<MessagePort>,
                                              GroupShape);
  const auto check = [](Make make, const Request& first, const Request& second) {
    Office office(3);
    OperationStorage storage[2];
    Operation* operations[2];
    std::unique_ptr<Algorithm> algorithms[2];
    const Request* requests[2] = {&first, &second};
    for (int me = 0; me < 2; ++me) {
      algorithms[me] =
          make(shm_models::pairwise, make_shm_port(office.mail[static_cast<std::size_t>(me)]),
               {.rank = me, .size = 3});
      operations[me] = &algorithms[me]->prepare(
          storage[me], {.request = requests[me], .peer = 2, .sequence = 1});
      operations[me]->start();
      EXPECT_FALSE(operations[me]->step());
    }
    const auto abandoned = operations[0]->abandon("rank 0 was impatient");
    EXPECT_TRUE(abandoned == nullptr || abandoned->done());
    try {
      operations[1]->step();
      ADD_FAILURE() << "waits for ever";
    } catch (const AbortedError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("rank 0 was impatient"));
    }
    operations[1]->abandon("told");
  };
  check(make_barrier_pairwise, Request::barrier(), Request::barrier());
  check(make_move_pairwise, Request::all_gather(in, OutputBlocks::equal(out[0])),
        Request::all_gather(in, OutputBlocks::equal(out[1])));
  check(make_reduce_pairwise, Request::all_reduce(in, out[0]), Request::all_reduce(in, out[1]));
}

TEST(ShmPort, AMessageThatIsGivenUpConcernsNobodyElse) {
  Office office(2);
  std::vector<std::int32_t> data(10);
  const Request receive = Request::recv(data, 1);
  for (const auto& algorithm :
       {make_send_recv(pairwise_models::over_mpi, make_shm_port(office.mail[0])),
        make_send_recv_rings(office.mail[0])}) {
    OperationStorage storage;
    Operation& operation = algorithm->prepare(storage, {.request = &receive, .peer = 1});
    operation.start();
    EXPECT_FALSE(operation.step());
    EXPECT_EQ(operation.abandon("impatient"), nullptr);
    EXPECT_FALSE(office.of(1).channel().is_aborted());
  }
}

}  // namespace
}  // namespace hymn::test
