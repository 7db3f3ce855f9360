// What receives over an exchange look at, and which message goes to whom.
#include "p2p/exchange_port.hpp"

#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "base/message_queues.hpp"

namespace hymn::test {
namespace {

/// One rank's end; messages come when the test says so.
class CountingExchange final : public Exchange {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1000; }
  void send(int, std::uint64_t tag, std::span<const std::byte>) override { last_tag = tag; }
  std::optional<ExchangeMessage> try_receive(int from, std::uint64_t tag) override {
    ++looks;
    return arrived.take(from, tag);
  }
  std::string name() const override { return "counting"; }

  MessageQueues arrived;
  std::uint64_t last_tag = 0;
  int looks = 0;
};

class ExchangePort : public ::testing::Test {
 protected:
  static std::vector<int> all_ranks() {
    std::vector<int> ranks(1000);
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }
  struct Receive {
    std::unique_ptr<Transfers> transfers;
    std::unique_ptr<std::uint8_t> value = std::make_unique<std::uint8_t>(std::uint8_t{0});
    bool test() const { return transfers->test(); }
  };
  Receive receive(int peer, int tag) {
    Receive made{port->open()};
    made.transfers->recv(peer, MessageTag::of_user(tag), view_of(*made.value));
    return made;
  }
  void arrive(int from, int tag, std::uint8_t value) {
    const auto sender = port->open();  // which knows how the exchange's tags are made
    sender->send(1, MessageTag::of_user(tag), ConstBufferView(&value, 1, DataType::uint8));
    exchange->arrived.add(exchange->last_tag, {from, {std::byte{value}}});
  }

  std::shared_ptr<CountingExchange> exchange = std::make_shared<CountingExchange>();
  std::shared_ptr<MessagePort> port = make_exchange_port(exchange, all_ranks());
};

TEST_F(ExchangePort, LooksOnlyForWhatIsAskedFor) {
  std::vector<Receive> all;
  for (int peer = 1; peer < 1000; ++peer) all.push_back(receive(peer, 1));
  for (int tag = 2; tag < 1000; ++tag) all.push_back(receive(1, tag));
  EXPECT_FALSE(all[500].test());
  EXPECT_EQ(exchange->looks, 1);
  arrive(501, 1, 7);
  EXPECT_TRUE(all[500].test());
  EXPECT_EQ(*all[500].value, 7);
  EXPECT_EQ(exchange->looks, 2);
}

TEST_F(ExchangePort, OfOneSenderTheFirstGetsTheFirst) {
  const Receive first = receive(3, 1);
  const Receive second = receive(3, 1);
  arrive(3, 1, 10);
  EXPECT_FALSE(second.test()) << "it is the other's";
  arrive(3, 1, 11);
  EXPECT_TRUE(second.test());
  EXPECT_TRUE(first.test());
  EXPECT_EQ(*first.value, 10);
  EXPECT_EQ(*second.value, 11);
}

TEST_F(ExchangePort, OneFromAnyRankKeepsItsPlace) {
  const Receive named = receive(3, 1);
  const Receive any = receive(any_source, 1);
  const Receive other = receive(4, 1);
  arrive(3, 1, 30);
  EXPECT_FALSE(any.test()) << "it is for the one that names the sender";
  arrive(4, 1, 40);
  EXPECT_FALSE(other.test()) << "it is for the one before";
  EXPECT_TRUE(any.test());
  EXPECT_TRUE(named.test());
  EXPECT_EQ(*named.value, 30);
  EXPECT_EQ(*any.value, 40);
  arrive(4, 1, 41);
  EXPECT_TRUE(other.test());
  EXPECT_EQ(*other.value, 41);
}

TEST_F(ExchangePort, WhoWaitsInVainKeepsBackOnlyThoseThatMatchTheSame) {
  const Receive named = receive(3, 1);
  const Receive other = receive(4, 1);
  const Receive any = receive(any_source, 1);
  arrive(4, 1, 40);
  EXPECT_TRUE(other.test());
  EXPECT_FALSE(any.test());
}

TEST_F(ExchangePort, WhatIsGivenUpIsNotInTheWay) {
  {
    const Receive given_up = receive(3, 1);
    EXPECT_FALSE(given_up.test());
  }
  const Receive next = receive(3, 1);
  arrive(3, 1, 9);
  EXPECT_TRUE(next.test());
  EXPECT_EQ(*next.value, 9);
}

TEST_F(ExchangePort, AMessageThatHadComeUnnoticedIsKeptForTheNextReceive) {
  const Receive given_up = receive(3, 1);
  arrive(3, 1, 10);
  EXPECT_FALSE(port->probe(3, MessageTag::of_user(1)).has_value()) << "it is the receive's";
  EXPECT_EQ(given_up.transfers->abandon("enough"), nullptr);
  arrive(3, 1, 11);
  const auto seen = port->probe(any_source, MessageTag::of_user(1));
  ASSERT_TRUE(seen.has_value());
  EXPECT_EQ(seen->source, 3);
  EXPECT_EQ(seen->count, 1u);
  const Receive first = receive(3, 1);
  const Receive second = receive(any_source, 1);
  EXPECT_TRUE(second.test());
  EXPECT_TRUE(first.test());
  EXPECT_EQ(*first.value, 10);
  EXPECT_EQ(*second.value, 11);
}

TEST_F(ExchangePort, AMessageThatHadComeUnnoticedGoesToAReceiveThatWaitsForIt) {
  const Receive given_up = receive(3, 1);
  const Receive waits = receive(any_source, 1);
  arrive(3, 1, 10);
  EXPECT_FALSE(waits.test()) << "it is the other's";
  EXPECT_EQ(given_up.transfers->abandon("enough"), nullptr);
  EXPECT_TRUE(waits.test());
  EXPECT_EQ(*waits.value, 10);
}

TEST_F(ExchangePort, WhatAnOperationLeavesKeepsItsOrder) {
  {
    std::array<std::uint8_t, 3> values{};
    const auto given_up = port->open();
    for (std::uint8_t& value : values) given_up->recv(3, MessageTag::of_user(1), view_of(value));
    arrive(3, 1, 10);
    arrive(3, 1, 11);
    EXPECT_FALSE(given_up->test());
    EXPECT_EQ(given_up->abandon("enough"), nullptr);
  }
  for (const int value : {10, 11}) {
    const Receive next = receive(3, 1);
    EXPECT_TRUE(next.test());
    EXPECT_EQ(*next.value, value);
  }
}

}  // namespace
}  // namespace hymn::test
