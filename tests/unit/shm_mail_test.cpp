// Sends and receives over rings: matching, order, what comes before it is asked for, and how
// operations over them are given up.
#include "collectives/shm/shm_mail.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "collectives/pairwise/pairwise.hpp"
#include "collectives/shm/shm_port.hpp"
#include "hymn/error.hpp"
#include "hymn/request.hpp"
#include "p2p/shm/heap_region.hpp"
#include "tests/support/sanitizers.hpp"

namespace hymn::test {
namespace {

/// The mail of all members of a group of threads.
struct Office {
  explicit Office(int members, bool crowded = true) {
    RegionPlan plan;
    const int desk = ShmChannel::open_desk(plan);
    RingAreas areas;
    areas.near = RingAreas::add_near(plan, members);
    areas.far = RingAreas::add_far(plan, members);
    const auto memory = std::make_shared<HeapMemory>(plan, members);
    std::vector<int> ranks;
    for (int rank = 0; rank < members; ++rank) ranks.push_back(rank);
    for (int rank = 0; rank < members; ++rank)
      mail.push_back(std::make_shared<ShmMail>(
          std::make_shared<ShmChannel>(HeapMemory::view(memory, rank), ranks, crowded, desk,
                                       [](const std::string&) {}),
          areas));
  }
  ShmMail& of(int member) { return *mail[static_cast<std::size_t>(member)]; }
  std::vector<std::shared_ptr<ShmMail>> mail;
};

std::vector<std::byte> message_of(std::size_t seed, std::size_t length) {
  std::vector<std::byte> bytes(length);
  for (std::size_t i = 0; i < length; ++i)
    bytes[i] = static_cast<std::byte>(seed * 17 + i * 5 + i / 241);
  return bytes;
}

/// A send and its data.
struct Letter {
  Letter(int to, std::uint64_t tag, std::vector<std::byte> bytes) : data(std::move(bytes)) {
    sending.to = to;
    sending.tag = tag;
    sending.data = data.data();
    sending.bytes = data.size();
  }
  std::vector<std::byte> data;
  Sending sending;
};

struct Awaited {
  Awaited(int from, std::uint64_t tag, std::size_t room) : data(room) {
    receiving.from = from;
    receiving.tag = tag;
    receiving.data = data.data();
    receiving.room = room;
  }
  std::vector<std::byte> got() const {
    return {data.begin(), data.begin() + static_cast<std::ptrdiff_t>(receiving.bytes)};
  }
  std::vector<std::byte> data;
  Receiving receiving;
};

void wait_until(const std::function<bool()>& done) {
  while (!done()) std::this_thread::yield();
}

void send(ShmMail& mail, int to, std::uint64_t tag, std::vector<std::byte> bytes) {
  Letter letter(to, tag, std::move(bytes));
  mail.start(letter.sending);
  wait_until([&] { return mail.step(letter.sending); });
}

std::vector<std::byte> receive(ShmMail& mail, int from, std::uint64_t tag, std::size_t room,
                               int* source = nullptr) {
  Awaited awaited(from, tag, room);
  mail.start(awaited.receiving);
  wait_until([&] { return mail.step(awaited.receiving); });
  if (source != nullptr) *source = awaited.receiving.source;
  return awaited.got();
}

constexpr std::size_t long_message = 300'000;

TEST(ShmMail, AMessageThatIsNotAskedForDoesNotBarTheWay) {
  for (const std::size_t length : {std::size_t{4}, std::size_t{2000}, long_message}) {
    Office office(2);
    std::thread other([&] {
      for (std::uint64_t tag = 0; tag < 20; ++tag)
        send(office.of(1), 0, tag, message_of(tag, length + tag));
    });
    for (std::uint64_t tag = 20; tag-- > 0;)
      EXPECT_EQ(receive(office.of(0), 1, tag, length + 20), message_of(tag, length + tag));
    other.join();
  }
}

TEST(ShmMail, MessagesWithOneTagKeepTheirOrder) {
  Office office(3);
  constexpr std::size_t messages = 200;
  auto length_of = [](std::size_t message) { return message * 1973 % 90'000; };
  std::thread other([&] {
    std::vector<std::unique_ptr<Letter>> letters;
    for (std::size_t i = 0; i < messages; ++i) {
      letters.push_back(std::make_unique<Letter>(0, 5, message_of(i, length_of(i))));
      office.of(2).start(letters.back()->sending);
    }
    for (const auto& letter : letters)
      wait_until([&] { return office.of(2).step(letter->sending); });
  });
  // Receives that are started together match in the order in which they were started.
  std::vector<std::unique_ptr<Awaited>> awaited;
  for (std::size_t i = 0; i < messages; ++i) {
    awaited.push_back(std::make_unique<Awaited>(i % 2 == 0 ? 2 : any_source, 5, 90'000));
    office.of(0).start(awaited.back()->receiving);
  }
  for (std::size_t i = messages; i-- > 0;)
    wait_until([&] { return office.of(0).step(awaited[i]->receiving); });
  other.join();
  for (std::size_t i = 0; i < messages; ++i)
    ASSERT_EQ(awaited[i]->got(), message_of(i, length_of(i))) << i;
}

TEST(ShmMail, NobodyIsPassedOverByReceivesFromAnybody) {
  constexpr int members = 9;
  constexpr int each = 50;
  Office office(members);
  for (int member = 1; member < members; ++member)
    for (int i = 0; i < each; ++i)
      send(office.of(member), 0, 1, message_of(static_cast<std::size_t>(i), 8));
  std::vector<int> from(members, 0);
  for (int i = 0; i < each * (members - 1); ++i) {
    int source = -1;
    receive(office.of(0), any_source, 1, 8, &source);
    ++from[static_cast<std::size_t>(source)];
    const auto [least, most] = std::minmax_element(from.begin() + 1, from.end());
    ASSERT_LE(*most - *least, 1) << "after " << i + 1 << " messages";
  }
}

TEST(ShmMail, ALongerMessageIsAnErrorAndTheNextOneComes) {
  for (const std::size_t length : {std::size_t{64}, long_message}) {
    Office office(2);
    std::thread other([&] {
      send(office.of(1), 0, 1, message_of(1, length));
      send(office.of(1), 0, 1, message_of(2, length));
    });
    Awaited small(1, 1, length - 1);
    office.of(0).start(small.receiving);
    EXPECT_THROW(wait_until([&] { return office.of(0).step(small.receiving); }), UsageError);
    EXPECT_TRUE(std::all_of(small.data.begin(), small.data.end(),
                            [](std::byte byte) { return byte == std::byte{0}; }));
    EXPECT_EQ(receive(office.of(0), 1, 1, length), message_of(2, length));
    other.join();
  }
}

TEST(ShmMail, AReceiveThatIsGivenUpInTheMiddleIsNotWrittenAfterwards) {
  Office office(2);
  Letter letter(0, 3, message_of(3, 4 << 20));
  office.of(1).start(letter.sending);
  Awaited awaited(1, 3, letter.data.size());
  office.of(0).start(awaited.receiving);
  EXPECT_FALSE(office.of(0).step(awaited.receiving));  // some of it has come
  office.of(0).withdraw(awaited.receiving);
  const std::vector<std::byte> before = awaited.data;
  EXPECT_NE(before, std::vector<std::byte>(before.size()));
  std::thread other([&] {
    wait_until([&] { return office.of(1).step(letter.sending); });
    send(office.of(1), 0, 4, message_of(4, 1000));
  });
  EXPECT_EQ(receive(office.of(0), 1, 4, 1000), message_of(4, 1000));
  other.join();
  EXPECT_EQ(receive(office.of(0), 1, 3, letter.data.size()), letter.data);
  EXPECT_EQ(awaited.data, before);
}

TEST(ShmMail, AMessageOfWhichAPartHadComeIsKeptForTheNextReceive) {
  Office office(2);
  Letter first(0, 3, message_of(1, 4 << 20));
  Letter second(0, 3, message_of(2, 20'000));
  for (Letter* letter : {&first, &second}) office.of(1).start(letter->sending);
  Awaited given_up(1, 3, first.data.size());
  office.of(0).start(given_up.receiving);
  EXPECT_FALSE(office.of(0).step(given_up.receiving));  // some of it has come
  EXPECT_TRUE(office.of(0).withdraw(given_up.receiving));
  std::thread other([&] {
    wait_until([&] { return office.of(1).step(first.sending); });
    wait_until([&] { return office.of(1).step(second.sending); });
  });
  EXPECT_EQ(receive(office.of(0), any_source, 3, first.data.size()), first.data);
  EXPECT_EQ(receive(office.of(0), 1, 3, first.data.size()), second.data);
  other.join();
}

TEST(ShmMail, AMessageOfWhichAPartHadComeGoesToAReceiveThatWaitsForIt) {
  Office office(2);
  Letter first(0, 3, message_of(1, 4 << 20));
  Letter second(0, 3, message_of(2, 20'000));
  for (Letter* letter : {&first, &second}) office.of(1).start(letter->sending);
  Awaited given_up(1, 3, first.data.size());
  Awaited waits(1, 3, first.data.size());
  for (Awaited* awaited : {&given_up, &waits}) office.of(0).start(awaited->receiving);
  EXPECT_FALSE(office.of(0).step(waits.receiving));
  EXPECT_TRUE(office.of(0).withdraw(given_up.receiving));
  std::thread other([&] {
    wait_until([&] { return office.of(1).step(first.sending); });
    wait_until([&] { return office.of(1).step(second.sending); });
  });
  wait_until([&] { return office.of(0).step(waits.receiving); });
  EXPECT_EQ(waits.got(), first.data);
  EXPECT_EQ(receive(office.of(0), 1, 3, first.data.size()), second.data);
  other.join();
}

// Another thread may have completed a receive that is just being given up.
TEST(ShmMail, AMessageThatHadComeUnnoticedIsKeptForTheNextReceive) {
  for (const std::size_t length : {std::size_t{0}, std::size_t{64}, std::size_t{20'000}}) {
    Office office(2);
    std::thread other([&] {
      for (std::size_t i = 1; i <= 3; ++i) send(office.of(1), 0, 3, message_of(i, length));
      send(office.of(1), 0, 4, message_of(4, length));
    });
    Awaited given_up(1, 3, length);
    office.of(0).start(given_up.receiving);
    EXPECT_EQ(receive(office.of(0), 1, 4, length), message_of(4, length));
    ASSERT_TRUE(given_up.receiving.is_done());
    EXPECT_TRUE(office.of(0).withdraw(given_up.receiving));
    for (std::size_t i = 1; i <= 3; ++i)
      EXPECT_EQ(receive(office.of(0), 1, 3, length), message_of(i, length));
    other.join();
  }
}

TEST(ShmMail, TheLastMessageThatHadComeUnnoticedIsKept) {
  Office office(2);
  Letter letter(0, 3, message_of(3, 20'000));
  office.of(1).start(letter.sending);
  Awaited given_up(1, 3, letter.data.size());
  Awaited never(1, 9, 1);
  for (Awaited* awaited : {&given_up, &never}) office.of(0).start(awaited->receiving);
  EXPECT_FALSE(office.of(0).step(never.receiving));
  ASSERT_TRUE(given_up.receiving.is_done());
  EXPECT_TRUE(office.of(0).withdraw(given_up.receiving));
  EXPECT_EQ(receive(office.of(0), 1, 3, letter.data.size()), letter.data);
  EXPECT_TRUE(office.of(0).withdraw(never.receiving));
}

TEST(ShmMail, AMessageThatCannotBeKeptIsLost) {
  if (sanitized) GTEST_SKIP() << "sanitizers end a process that asks for too much memory";
  Office office(2);
  Letter letter(0, 3, message_of(3, 4 << 20));
  letter.sending.bytes = SIZE_MAX;
  office.of(1).start(letter.sending);
  Awaited awaited(1, 3, letter.data.size());
  awaited.receiving.room = SIZE_MAX;
  office.of(0).start(awaited.receiving);
  EXPECT_FALSE(office.of(0).step(awaited.receiving));
  EXPECT_FALSE(office.of(0).withdraw(awaited.receiving));
  EXPECT_FALSE(office.of(1).withdraw(letter.sending));
}

TEST(ShmMail, AReceiveTakesOverAMessageThatIsBeingPutAside) {
  Office office(2);
  Letter letter(0, 3, message_of(3, 4 << 20));
  office.of(1).start(letter.sending);
  Awaited never(1, 9, 1);
  office.of(0).start(never.receiving);
  EXPECT_FALSE(office.of(0).step(never.receiving));  // puts the beginning aside
  std::thread other([&] { wait_until([&] { return office.of(1).step(letter.sending); }); });
  EXPECT_EQ(receive(office.of(0), 1, 3, letter.data.size()), letter.data);
  other.join();
  office.of(0).withdraw(never.receiving);
}

TEST(ShmMail, ASendCanBeWithdrawnUntilAPartOfItHasGone) {
  Office office(2);
  Letter first(0, 1, message_of(1, 4 << 20));
  Letter second(0, 2, message_of(2, 4 << 20));
  Letter third(0, 3, message_of(3, 10));
  for (Letter* letter : {&first, &second, &third}) office.of(1).start(letter->sending);
  EXPECT_TRUE(office.of(1).withdraw(second.sending));
  std::thread other([&] {
    wait_until([&] { return office.of(1).step(first.sending); });
    wait_until([&] { return office.of(1).step(third.sending); });
  });
  EXPECT_EQ(receive(office.of(0), 1, 3, 10), third.data);
  EXPECT_EQ(receive(office.of(0), 1, 1, first.data.size()), first.data);
  other.join();
  Letter half(0, 4, message_of(4, 4 << 20));
  office.of(1).start(half.sending);
  EXPECT_FALSE(office.of(1).withdraw(half.sending));
}

TEST(ShmMail, AnAbortReachesWhoeverWaits) {
  Office office(2);
  Awaited awaited(1, 1, 8);
  office.of(0).start(awaited.receiving);
  EXPECT_FALSE(office.of(0).step(awaited.receiving));
  office.of(1).channel().abort("the reason");
  EXPECT_THROW(office.of(0).step(awaited.receiving), AbortedError);
  office.of(0).withdraw(awaited.receiving);
}

TEST(ShmMail, ManyThreadsOfManyMembers) {
  constexpr int members = 5;
  constexpr int threads = 2;
  constexpr int messages = 60;
  for (const bool crowded : {true, false}) {
    Office office(members, crowded);
    // Thread t of each member exchanges messages with thread t of all others, all under way at
    // once.
    auto run = [&](int me, int thread) {
      const auto tag = static_cast<std::uint64_t>(thread);
      std::mt19937 random(static_cast<unsigned>(me * 100 + thread));
      std::vector<std::unique_ptr<Letter>> letters;
      std::vector<std::unique_ptr<Awaited>> awaited;
      for (int i = 0; i < messages; ++i)
        for (int peer = 0; peer < members; ++peer) {
          if (peer == me) continue;
          const std::size_t length = random() % 4 == 0 ? random() % 100'000 : random() % 200;
          auto bytes = message_of(static_cast<std::size_t>(me * 1000 + i), length);
          letters.push_back(std::make_unique<Letter>(peer, tag, std::move(bytes)));
          awaited.push_back(std::make_unique<Awaited>(peer, tag, 100'000));
          office.of(me).start(awaited.back()->receiving);
          office.of(me).start(letters.back()->sending);
        }
      wait_until([&] {
        bool all = true;
        for (const auto& letter : letters) all = office.of(me).step(letter->sending) && all;
        for (const auto& receive : awaited) all = office.of(me).step(receive->receiving) && all;
        return all;
      });
      std::size_t k = 0;
      for (std::size_t i = 0; i < messages; ++i)
        for (int peer = 0; peer < members; ++peer) {
          if (peer == me) continue;
          const auto got = awaited[k++]->got();
          EXPECT_EQ(got, message_of(static_cast<std::size_t>(peer) * 1000 + i, got.size()));
        }
    };
    std::vector<std::thread> all;
    for (int me = 0; me < members; ++me)
      for (int thread = 0; thread < threads; ++thread) all.emplace_back(run, me, thread);
    for (std::thread& thread : all) thread.join();
  }
}

/// A channel of two, and the ring from one to the other as both see it.
struct Ring {
  Ring() {
    RegionPlan plan;
    const int desk = ShmChannel::open_desk(plan);
    areas.near = RingAreas::add_near(plan, 2);
    areas.far = RingAreas::add_far(plan, 2);
    const auto heap = std::make_shared<HeapMemory>(plan, 2);
    channel = std::make_unique<ShmChannel>(HeapMemory::view(heap, 0), std::vector<int>{0, 1}, false,
                                           desk, [](const std::string&) {});
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
  using Make = std::unique_ptr<Algorithm> (*)(std::shared_ptr<MessagePort> port, GroupShape shape);
  const auto check = [](Make make, const Request& first, const Request& second) {
    Office office(3);
    OperationStorage storage[2];
    Operation* operations[2];
    std::unique_ptr<Algorithm> algorithms[2];
    const Request* requests[2] = {&first, &second};
    for (int me = 0; me < 2; ++me) {
      algorithms[me] =
          make(make_shm_port(office.mail[static_cast<std::size_t>(me)]), {.rank = me, .size = 3});
      operations[me] = &algorithms[me]->prepare(
          storage[me], {.request = requests[me], .peer = 2, .sequence = 1});
      operations[me]->start();
      EXPECT_FALSE(operations[me]->step());
    }
    const auto residue = operations[0]->abandon("rank 0 was impatient");
    EXPECT_TRUE(residue == nullptr || residue->done());
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
       {make_send_recv(make_shm_port(office.mail[0])), make_send_recv_rings(office.mail[0])}) {
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
