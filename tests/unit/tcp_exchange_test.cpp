// Messages of an Exchange whose ranks have found each other in a store.
#include "p2p/tcp/tcp_exchange.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <map>
#include <random>
#include <thread>

#include "base/meeting.hpp"
#include "p2p/tcp/tcp_socket.hpp"

namespace hymn::test {
namespace {

using testing::HasSubstr;

class TcpExchange : public testing::Test {
 protected:
  std::shared_ptr<Exchange> come(int rank, int size) {
    return make_tcp_exchange(
        store_,
        {.rank = rank, .size = size, .interface = "lo", .logger = Logger(LogLevel::off, rank)});
  }
  std::vector<std::shared_ptr<Exchange>> all(int size) {
    std::vector<std::shared_ptr<Exchange>> ranks;
    for (int rank = 0; rank < size; ++rank) ranks.push_back(come(rank, size));
    return ranks;
  }
  std::shared_ptr<Store> store_ = std::make_shared<HashStore>();
};

Bytes bytes_of(std::size_t count, unsigned seed) {
  Bytes bytes(count);
  std::minstd_rand random(seed + 1);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// While it waits the others are moved, too, as their threads would.
ExchangeMessage receive(const std::vector<std::shared_ptr<Exchange>>& ranks, int to, int from,
                        std::uint64_t tag) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < end) {
    if (auto message = ranks[static_cast<std::size_t>(to)]->try_receive(from, tag)) return *message;
    for (const auto& rank : ranks) (void)rank->has_left(0);
  }
  ADD_FAILURE() << "nothing has come to rank " << to;
  return {};
}

TEST_F(TcpExchange, KeepsMessagesApartAndInOrder) {
  const auto ranks = all(3);
  constexpr std::uint64_t high = ~std::uint64_t{0} - 7;
  for (unsigned i = 0; i < 20; ++i) {
    ranks[0]->send(1, 5, bytes_of(i, i));
    ranks[0]->send(1, high, bytes_of(3 * i, 100 + i));
    ranks[2]->send(1, 5, bytes_of(2 * i, 200 + i));
  }
  for (unsigned i = 0; i < 20; ++i)
    EXPECT_EQ(receive(ranks, 1, 2, 5).bytes, bytes_of(2 * i, 200 + i));
  for (unsigned i = 0; i < 20; ++i)
    EXPECT_EQ(receive(ranks, 1, 0, high).bytes, bytes_of(3 * i, 100 + i));
  for (unsigned i = 0; i < 20; ++i) EXPECT_EQ(receive(ranks, 1, 0, 5).bytes, bytes_of(i, i));
  EXPECT_FALSE(ranks[1]->try_receive(Exchange::from_anyone, 5));
}

TEST_F(TcpExchange, LongMessagesKeepTheirOrderAmongShortOnes) {
  const auto ranks = all(2);
  const std::vector<std::size_t> lengths = {1, 3'000'000, 0, 140'000, 7, 1'000'000};
  for (std::size_t i = 0; i < lengths.size(); ++i)
    ranks[0]->send(1, 1, bytes_of(lengths[i], static_cast<unsigned>(i)));
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const int from = i % 2 == 0 ? 0 : Exchange::from_anyone;
    const ExchangeMessage message = receive(ranks, 1, from, 1);
    EXPECT_EQ(message.source, 0);
    EXPECT_EQ(message.bytes, bytes_of(lengths[i], static_cast<unsigned>(i))) << i;
  }
}

TEST_F(TcpExchange, ALongMessageHoldsNobodyElseUp) {
  const auto ranks = all(3);
  ranks[0]->send(2, 1, bytes_of(5'000'000, 1));
  while (!ranks[2]->try_receive(0, 1) && ranks[2]->has_left(0)) {
    ranks[1]->send(2, 1, bytes_of(10, 2));
    if (ranks[2]->try_receive(1, 1)) break;
    (void)ranks[1]->has_left(0);
  }
  EXPECT_EQ(receive(ranks, 2, 0, 1).bytes, bytes_of(5'000'000, 1));
}

TEST_F(TcpExchange, WhatIsSaidToWhoIsNotThereYetWaits) {
  std::vector<std::shared_ptr<Exchange>> ranks = {come(0, 2)};
  const std::uint64_t first = ranks[0]->send_numbered(1, 9, bytes_of(10, 1));
  const std::uint64_t second = ranks[0]->send_numbered(1, 9, bytes_of(20, 2));
  EXPECT_FALSE(ranks[0]->has_left(first));
  ranks.push_back(come(1, 2));
  EXPECT_EQ(receive(ranks, 1, 0, 9).bytes, bytes_of(10, 1));
  EXPECT_EQ(receive(ranks, 1, 0, 9).bytes, bytes_of(20, 2));
  EXPECT_TRUE(ranks[0]->has_left(first));
  EXPECT_TRUE(ranks[0]->has_left(second));
}

TEST_F(TcpExchange, ARankMayTalkToItself) {
  const auto ranks = all(2);
  ranks[1]->send(1, 4, bytes_of(100'000, 3));
  EXPECT_FALSE(ranks[1]->try_receive(1, 5));
  EXPECT_FALSE(ranks[1]->try_receive(0, 4));
  const auto message = ranks[1]->try_receive(Exchange::from_anyone, 4);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->source, 1);
  EXPECT_EQ(message->bytes, bytes_of(100'000, 3));
}

TEST_F(TcpExchange, WhatWasSentComesAfterItsSenderHasEnded) {
  auto ranks = all(2);
  ranks[0]->send(1, 1, bytes_of(1000, 1));
  ranks[0].reset();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::optional<ExchangeMessage> message;
  while (!message && std::chrono::steady_clock::now() < end) message = ranks[1]->try_receive(0, 1);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->bytes, bytes_of(1000, 1));
}

TEST_F(TcpExchange, WhoHasEndedBeforeItCameIsNamed) {
  const auto site = [](int rank) {
    return TcpExchangeSite{.rank = rank,
                           .size = 3,
                           .one_host = true,
                           .logger = Logger(LogLevel::off, rank),
                           .how_ended = [](int) { return std::optional<std::string>("has left"); }};
  };
  const auto zero = make_tcp_exchange(store_, site(0));
  {
    const auto one = make_tcp_exchange(store_, site(1));
    one->send(0, 1, bytes_of(10, 1));
    while (!zero->try_receive(1, 1)) (void)one->has_left(0);
  }
  const auto until_asked = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (std::chrono::steady_clock::now() < until_asked)
    EXPECT_FALSE(zero->try_receive(1, 1)) << "it had come, before it ended";
  try {
    while (!zero->try_receive(2, 1)) {
    }
    FAIL() << "it has not come";
  } catch (const PeerError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 2 has ended before it came: it has left"));
    EXPECT_THAT(error.context().missing, testing::ElementsAre(2));
  }
}

TEST_F(TcpExchange, RanksThatDoNotExistAreRefused) {
  const auto ranks = all(2);
  EXPECT_THROW(ranks[0]->send(2, 1, {}), UsageError);
  EXPECT_THROW(ranks[0]->send(-1, 1, {}), UsageError);
}

TEST_F(TcpExchange, TwoThatComeAsOneRankAreTold) {
  come(1, 2).reset();  // it has ended
  const auto first = come(1, 2);
  try {
    come(1, 2);
    FAIL() << "nothing is thrown";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.problem(), HasSubstr("another process is rank 1 of this world already"));
    EXPECT_EQ(error.context().rank, 1);
  }
}

TEST_F(TcpExchange, AnInterfaceThatIsNotThereIsNamed) {
  try {
    make_tcp_exchange(
        store_, {.rank = 0, .size = 2, .interface = "none7", .logger = Logger(LogLevel::off, 0)});
    FAIL() << "nothing is thrown";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("none7"));
  }
}

// All from all, each rank a thread; and then all gather.
TEST_F(TcpExchange, RanksAsThreads) {
  constexpr int size = 7;
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      const auto exchange = come(rank, size);
      for (int to = 0; to < size; ++to)
        exchange->send(to, 3,
                       bytes_of(static_cast<std::size_t>(rank) * 9'000, static_cast<unsigned>(to)));
      std::vector<bool> come(size);
      for (int i = 0; i < size; ++i) {
        std::optional<ExchangeMessage> message;
        while (!(message = exchange->try_receive(Exchange::from_anyone, 3)))
          std::this_thread::yield();
        const auto from = static_cast<std::size_t>(message->source);
        if (!come[from] && message->bytes == bytes_of(from * 9'000, static_cast<unsigned>(rank)))
          ++right;
        come[from] = true;
      }
      std::vector<int> members(size);
      for (int i = 0; i < size; ++i) members[static_cast<std::size_t>(i)] = i;
      const auto words =
          all_gather(*exchange, members, 8, bytes_of(50'000, static_cast<unsigned>(rank)),
                     {.deadline = Deadline::after(Duration(std::chrono::seconds(60))),
                      .purpose = "gathering"});
      for (unsigned i = 0; i < size; ++i)
        if (words[i] == bytes_of(50'000, i)) ++right;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, 2 * size * size);
}

}  // namespace
}  // namespace hymn::test
