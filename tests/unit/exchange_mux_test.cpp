// Messages of worlds and groups over one exchange: each gets its own, and what nobody can receive
// any more is dropped.
#include "base/exchange_mux.hpp"

#include <gtest/gtest.h>

#include <set>

#include "p2p/exchange_port.hpp"
#include "p2p/threads/thread_hub.hpp"
#include "tests/unit/text_bytes.hpp"

namespace hymn::test {
namespace {

/// "nothing", or the text of the next message.
std::string next(Exchange& exchange, int from, std::uint64_t tag) {
  const auto message = exchange.try_receive(from, tag);
  if (!message) return "nothing";
  return text_of(message->bytes);
}

/// Keeps only the lowest bits of every tag, as an exchange over something narrow might.
class NarrowExchange final : public Exchange {
 public:
  NarrowExchange(std::shared_ptr<ThreadHub> hub, int rank) : inner_(std::move(hub), rank) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void send(int to, std::uint64_t tag, std::span<const std::byte> bytes) override {
    inner_.send(to, tag & 0xff, bytes);
  }
  std::optional<ExchangeMessage> try_receive(int from, std::uint64_t tag) override {
    return inner_.try_receive(from, tag & 0xff);
  }
  std::string name() const override { return "narrow"; }

 private:
  ThreadExchange inner_;
};

/// Messages leave when the test says so.
class WaitingExchange final : public Exchange {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  void send(int to, std::uint64_t tag, std::span<const std::byte> bytes) override {
    send_numbered(to, tag, bytes);
  }
  std::uint64_t send_numbered(int, std::uint64_t, std::span<const std::byte>) override {
    return ++sent;
  }
  std::optional<ExchangeMessage> try_receive(int, std::uint64_t) override { return std::nullopt; }
  bool has_left(std::uint64_t number) override {
    if (fails) throw NetworkError("no connection");
    return left.contains(number);
  }
  std::string name() const override { return "waiting"; }
  bool fails = false;
  std::uint64_t sent = 0;
  std::set<std::uint64_t> left{};
};

/// A world's messages over it.
struct Mail {
  std::shared_ptr<WaitingExchange> exchange = std::make_shared<WaitingExchange>();
  std::shared_ptr<ExchangeMux> mux = ExchangeMux::over(exchange);
  std::shared_ptr<UnsentMail> unsent = std::make_shared<UnsentMail>();
  bool may_move = true;
  bool is_gone = false;

  void open() {
    mux->set_mail(unsent, {.may_move = [this] { return may_move; },
                           .is_gone = [this](int) { return is_gone; }});
  }
  /// By a channel that ends with that.
  void say() const { mux->channel(1)->send(1, 5, bytes_of("word")); }
  void move_often() const {
    for (int i = 0; i < 100; ++i) unsent->move();
  }
};

TEST(UnsentMail, IsMovedUntilAllOfItHasLeft) {
  Mail mail;
  mail.open();
  EXPECT_TRUE(mail.unsent->is_empty());
  const auto channel = mail.mux->channel(1);
  for (int i = 0; i < 40; ++i) channel->send(1, 5, bytes_of("word"));
  mail.move_often();
  EXPECT_FALSE(mail.unsent->is_empty());
  for (std::uint64_t number = 40; number > 1; --number) mail.exchange->left.insert(number);
  mail.move_often();
  EXPECT_FALSE(mail.unsent->is_empty());
  mail.exchange->left.insert(1);
  mail.move_often();
  EXPECT_TRUE(mail.unsent->is_empty());
}

TEST(UnsentMail, OfTheTimeBeforeIsMovedToo) {
  Mail mail;
  mail.say();
  mail.open();
  mail.unsent->move();
  EXPECT_FALSE(mail.unsent->is_empty());
  mail.exchange->left.insert(1);
  mail.unsent->move();
  EXPECT_TRUE(mail.unsent->is_empty());
}

TEST(UnsentMail, IsNotMovedByAThreadThatMayNot) {
  Mail mail;
  mail.open();
  mail.say();
  mail.exchange->left.insert(1);
  mail.may_move = false;
  mail.unsent->move();
  EXPECT_FALSE(mail.unsent->is_empty());
}

TEST(UnsentMail, GoesWithItsWorld) {
  Mail mail;
  mail.open();
  mail.say();
  mail.mux = nullptr;
  EXPECT_TRUE(mail.unsent->is_empty());
}

TEST(UnsentMail, ToWhoIsGoneIsForgotten) {
  Mail mail;
  mail.open();
  mail.say();
  mail.unsent->move();
  EXPECT_FALSE(mail.unsent->is_empty());
  mail.is_gone = true;
  mail.unsent->move();
  EXPECT_TRUE(mail.unsent->is_empty());
}

TEST(UnsentMail, IsForgottenWhenItsWorldEnds) {
  Mail mail;
  mail.open();
  const auto channel = mail.mux->channel(1);
  channel->send(1, 5, bytes_of("word"));
  mail.mux->end_mail();
  EXPECT_TRUE(mail.unsent->is_empty());
  channel->send(1, 5, bytes_of("word"));
  EXPECT_TRUE(mail.unsent->is_empty());
}

// Who waits for something else has nothing to do with it.
TEST(UnsentMail, FailuresOfItConcernThoseAloneWhoTalkToThatRank) {
  Mail mail;
  mail.open();
  const auto channel = mail.mux->channel(1);
  mail.exchange->fails = true;
  channel->send(1, 5, bytes_of("word"));
  mail.unsent->move();
  mail.exchange->fails = false;
  EXPECT_EQ(channel->try_receive(1, 5), std::nullopt);
  mail.exchange->left.insert(1);
  mail.unsent->move();
  EXPECT_TRUE(mail.unsent->is_empty());
}

// What waits for a message to leave would wait for ever if that hung on others to the same rank,
// which it takes only when it has what this one waits to send next.
TEST(ExchangeMux, EachMessageLeavesByItself) {
  const auto exchange = std::make_shared<WaitingExchange>();
  const auto mux = ExchangeMux::over(exchange);
  const auto port = make_exchange_port(mux->channel(1), {0, 1});
  const std::uint8_t value = 7;
  const auto start = [&](int tag) {
    auto transfers = port->open();
    transfers->send(1, MessageTag::of_user(tag), ConstBufferView(&value, 1, DataType::uint8));
    return transfers;
  };
  const auto first = start(1);
  const auto second = start(2);
  const auto of_world = mux->channel(ExchangeMux::world_channel);
  const std::uint64_t third = of_world->send_numbered(1, 3, {});
  EXPECT_FALSE(first->test() || second->test());
  exchange->left = {2};
  EXPECT_FALSE(first->test());
  EXPECT_TRUE(second->test());
  exchange->left = {1, 2};
  EXPECT_TRUE(first->test());
  EXPECT_FALSE(of_world->has_left(third));
}

TEST(ExchangeMux, WhatAProbeHasFoundAndNobodyReceivedIsCounted) {
  const auto hub = std::make_shared<ThreadHub>(1);
  const auto mux = ExchangeMux::over(std::make_shared<NarrowExchange>(hub, 0));
  const auto make_port = [&](std::uint64_t id) {
    return make_exchange_port(mux->channel(id), {0},
                              [=](std::size_t n) { mux->count_dropped(id, n); });
  };
  const std::uint8_t value = 7;
  for (const std::uint64_t id : {1, 2}) {
    auto port = make_port(id);
    auto transfers = port->open();
    for (const int tag : {1, 2})
      transfers->send(0, MessageTag::of_user(tag), ConstBufferView(&value, 1, DataType::uint8));
    EXPECT_TRUE(port->probe(0, MessageTag::of_user(1)).has_value());
    EXPECT_TRUE(port->probe(any_source, MessageTag::of_user(2)).has_value());
    std::uint8_t got = 0;
    transfers->recv(0, MessageTag::of_user(2), view_of(got));
    EXPECT_TRUE(transfers->test());
    transfers.reset();
    port.reset();
    EXPECT_EQ(mux->dropped(), id) << "one of two was found alone";
  }
}

class TwoRanks : public ::testing::Test {
 protected:
  std::shared_ptr<ThreadHub> hub = std::make_shared<ThreadHub>(2);
  std::shared_ptr<Exchange> exchanges[2] = {std::make_shared<NarrowExchange>(hub, 0),
                                            std::make_shared<NarrowExchange>(hub, 1)};
  std::shared_ptr<ExchangeMux> muxes[2] = {ExchangeMux::over(exchanges[0]),
                                           ExchangeMux::over(exchanges[1])};
  std::shared_ptr<Exchange> channel(int rank, std::uint64_t id) { return muxes[rank]->channel(id); }
};

using ExchangeMuxTest = TwoRanks;

// Every bit of the channel and of the tag tells messages apart.
TEST_F(ExchangeMuxTest, AllBitsCount) {
  const auto base = channel(0, 5);
  const auto sent_to = channel(1, 5);
  base->send(1, 7, bytes_of("base"));
  std::vector<std::shared_ptr<Exchange>> others;
  for (int bit = 0; bit < 64; ++bit) {
    const std::uint64_t one = std::uint64_t{1} << bit;
    others.push_back(channel(0, 5 ^ one));
    others.back()->send(1, 7, bytes_of("channel"));
    base->send(1, 7 ^ one, bytes_of("tag"));
  }
  for (int bit = 64; bit-- > 0;) {
    const std::uint64_t one = std::uint64_t{1} << bit;
    EXPECT_EQ(next(*channel(1, 5 ^ one), 0, 7), "channel") << bit;
    EXPECT_EQ(next(*sent_to, 0, 7 ^ one), "tag") << bit;
  }
  EXPECT_EQ(next(*sent_to, Exchange::from_anyone, 7), "base");
  EXPECT_EQ(next(*sent_to, 0, 7), "nothing");
  EXPECT_EQ(muxes[1]->held(), 0u);
  EXPECT_EQ(muxes[1]->dropped(), 0u);
}

TEST_F(ExchangeMuxTest, WhatComesBeforeItsChannelIsMadeWaits) {
  channel(0, 9)->send(1, 1, bytes_of("early"));
  EXPECT_EQ(next(*channel(1, 8), 0, 1), "nothing");
  EXPECT_EQ(muxes[1]->held(), 1u);
  EXPECT_EQ(next(*channel(1, 9), 0, 1), "early");
}

TEST_F(ExchangeMuxTest, WhatNobodyCanReceiveAnyMoreIsDropped) {
  std::vector<std::string> told;
  const auto one = ExchangeMux::over(exchanges[0]);
  const auto two = ExchangeMux::over(
      exchanges[1], [&told](const std::string& dropped) { told.push_back(dropped); });
  const auto from = one->channel(3);
  const auto living = two->channel(4);
  {
    const auto ends = two->channel(3);
    from->send(1, 1, bytes_of("before its end"));
    EXPECT_EQ(next(*living, 0, 1), "nothing");  // sorts it
  }
  EXPECT_EQ(two->dropped(), 1u);
  from->send(1, 1, bytes_of("after its end"));
  EXPECT_EQ(next(*living, 0, 1), "nothing");
  EXPECT_EQ(two->dropped(), 2u);
  two->pass_over(6);  // this rank is no member
  one->channel(6)->send(1, 1, bytes_of("to no member"));
  EXPECT_EQ(next(*living, 0, 1), "nothing");
  EXPECT_EQ(two->dropped(), 3u);
  EXPECT_EQ(two->held(), 0u);
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(told[0], "1 message(s) dropped: group 3 has ended");
  EXPECT_THROW(two->channel(3), UsageError);
}

TEST_F(ExchangeMuxTest, WorldsOverOneExchangeAreApart) {
  channel(0, 0)->send(1, 1, bytes_of("first world"));
  const auto one = ExchangeMux::over(exchanges[0]);
  const auto two = ExchangeMux::over(exchanges[1]);
  one->channel(0)->send(1, 1, bytes_of("second world"));
  EXPECT_EQ(next(*two->channel(0), 0, 1), "second world");
  EXPECT_EQ(next(*channel(1, 0), 0, 1), "first world");
}

// An exchange may keep so little of a tag that worlds meet.
TEST_F(ExchangeMuxTest, AMessageOfAnotherWorldIsDropped) {
  channel(0, 0)->send(1, 1, bytes_of("first world"));
  std::shared_ptr<ExchangeMux> two;
  for (int world = 0; world < 256; ++world) two = ExchangeMux::over(exchanges[1]);
  EXPECT_EQ(next(*two->channel(0), 0, 1), "nothing");
  EXPECT_EQ(two->dropped(), 1u);
}

TEST_F(ExchangeMuxTest, AMessageWithoutIdentityIsDropped) {
  exchanges[0]->send(1, 1, bytes_of("short"));
  EXPECT_EQ(next(*channel(1, 0), 0, 1), "nothing");
  EXPECT_EQ(muxes[1]->dropped(), 1u);
}

// Groups come and go for ever; some of them are others', and some live long.
TEST_F(ExchangeMuxTest, RemembersNoMoreThanLivesAndGaps) {
  const auto old = channel(1, 0);
  for (std::uint64_t id = 1; id <= 10'000; ++id) {
    if (id % 3 == 0)
      muxes[1]->pass_over(id);
    else
      channel(1, id);
    EXPECT_LE(muxes[1]->remembered(), 2u);
  }
}

// Those who made groups with this rank in mind may have died, or given up, before it did.
TEST_F(ExchangeMuxTest, KeepsMessagesOfFewChannelsThatNobodyAsksFor) {
  const auto open = channel(1, 1);
  channel(0, 1)->send(1, 1, bytes_of("kept"));
  for (std::uint64_t id = 2; id < 3 * ExchangeMux::most_awaited; ++id)
    channel(0, id)->send(1, 1, bytes_of("for nobody"));
  EXPECT_EQ(next(*open, 0, 2), "nothing");
  EXPECT_EQ(muxes[1]->held(), ExchangeMux::most_awaited + 1);
  EXPECT_EQ(muxes[1]->dropped(), 2 * ExchangeMux::most_awaited - 2);
  EXPECT_EQ(next(*open, 0, 1), "kept");
}

// Of survivors' groups each has a number of its own, with gaps between.
TEST_F(ExchangeMuxTest, RemembersSomeGapsAlone) {
  const auto old = channel(1, 3);
  for (std::uint64_t id = 10; id < 30'000; id += 2) channel(1, id);
  EXPECT_LE(muxes[1]->remembered(), NumberSet::most_ranges + 1);
  channel(0, 3)->send(1, 1, bytes_of("old"));
  EXPECT_EQ(next(*old, 0, 1), "old") << "it lives, though others between have ended";
  EXPECT_EQ(channel(1, 3), old);
}

TEST(NumberSet, JoinsNeighbours) {
  NumberSet set;
  for (const std::uint64_t number : {5, 1, 3, 9, 2, 4, 4}) set.add(number);
  EXPECT_EQ(set.ranges(), 2u);
  for (const std::uint64_t number : {1, 2, 3, 4, 5, 9}) EXPECT_TRUE(set.contains(number)) << number;
  for (const std::uint64_t number : {0, 6, 8, 10}) EXPECT_FALSE(set.contains(number)) << number;
  set.add(~std::uint64_t{0});
  set.add(0);
  EXPECT_EQ(set.ranges(), 3u);
  EXPECT_TRUE(set.contains(~std::uint64_t{0}));
  EXPECT_FALSE(set.contains(~std::uint64_t{0} - 1));
}

// Each of several that count has numbers far from those of the others.
TEST(NumberSet, ForgetsNoGapBetweenThoseThatCount) {
  const auto first_of = [](std::uint64_t one) { return 2 * one * NumberSet::far_apart; };
  NumberSet set;
  set.add(0);
  for (std::uint64_t i = 0; i <= 2 * NumberSet::most_ranges; ++i)
    set.add(first_of(i % 2 + 1) + i / 2 * 2);
  EXPECT_LE(set.ranges(), NumberSet::most_ranges);
  EXPECT_FALSE(set.contains(1));
  EXPECT_FALSE(set.contains(first_of(1) - 1));
  EXPECT_TRUE(set.contains(first_of(1) + 1)) << "the lowest gap of the first";
  EXPECT_FALSE(set.contains(first_of(2) - 1));
  EXPECT_FALSE(set.contains(first_of(2) + 2 * NumberSet::most_ranges));
}

}  // namespace
}  // namespace hymn::test
