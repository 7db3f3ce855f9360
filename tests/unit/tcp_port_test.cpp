// Messages by connections of hymn's own: which goes to whom, and what becomes of what nobody takes.
#include "p2p/tcp/tcp_port.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/unit/tcp_scene.hpp"

namespace hymn::test {
namespace {

using ::testing::Each;

// On both sides of what is announced, of what goes ahead then, and of one part of the rest.
constexpr std::array sizes = {std::size_t{0},       std::size_t{1},
                              std::size_t{1000},    tcp::eager_limit,
                              tcp::eager_limit + 1, tcp::part_limit,
                              tcp::part_limit + 1,  std::size_t{5} * tcp::part_limit + 17};

class TcpPort : public ::testing::Test {
 protected:
  std::unique_ptr<Transfers> send(int from, int to, int tag, const Block& block) {
    auto transfers = ports[static_cast<std::size_t>(from)]->open();
    transfers->send(to, user(tag), sent(block));
    return transfers;
  }
  std::unique_ptr<Transfers> recv(int at, int from, int tag, Block& block) {
    auto transfers = ports[static_cast<std::size_t>(at)]->open();
    transfers->recv(from, user(tag), room(block));
    return transfers;
  }
  bool both(Transfers& a, Transfers& b) {
    return scene.until([&] { return int{a.test()} + int{b.test()} == 2; });
  }

  TcpScene scene{3};
  std::vector<std::shared_ptr<MessagePort>> ports{scene.port(0), scene.port(1), scene.port(2)};
};

TEST_F(TcpPort, CarriesAllSizesWhoeverComesFirst) {
  unsigned seed = 0;
  for (const std::size_t size : sizes)
    for (const bool send_first : {true, false}) {
      const Block block = pattern(size, ++seed);
      Block got(size);
      std::unique_ptr<Transfers> out;
      std::unique_ptr<Transfers> in;
      if (send_first) {
        out = send(0, 1, 7, block);
        scene.within(std::chrono::milliseconds(20), [] { return false; });
        in = recv(1, 0, 7, got);
      } else {
        in = recv(1, 0, 7, got);
        scene.within(std::chrono::milliseconds(20), [] { return false; });
        out = send(0, 1, 7, block);
      }
      ASSERT_TRUE(both(*out, *in)) << size;
      EXPECT_EQ(got, block) << size;
      EXPECT_EQ(in->status().source, 0);
      EXPECT_EQ(in->status().tag, 7);
      EXPECT_EQ(in->status().count, size);
    }
}

TEST_F(TcpPort, ASmallMessageNeedsNoOtherToLook) {
  const Block block = pattern(100, 1);
  const auto out = send(0, 1, 1, block);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  bool done = false;
  while (!done && std::chrono::steady_clock::now() < end) done = out->test();
  EXPECT_TRUE(done);
  Block got(100);
  const auto in = recv(1, 0, 1, got);
  EXPECT_TRUE(scene.until([&] { return in->test(); }));
  EXPECT_EQ(got, block);
}

TEST_F(TcpPort, OfOneSenderTheFirstGetsTheFirst) {
  std::vector<Block> blocks;
  std::vector<std::unique_ptr<Transfers>> out;
  for (unsigned i = 0; i < sizes.size(); ++i) {
    blocks.push_back(pattern(sizes[i], i));
    blocks.push_back(pattern(sizes[sizes.size() - 1 - i], 100 + i));
  }
  for (const Block& block : blocks) out.push_back(send(2, 0, 4, block));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    Block got(sizes.back());
    const auto in = recv(0, 2, 4, got);
    ASSERT_TRUE(scene.until([&] { return in->test(); }));
    got.resize(in->status().count);
    EXPECT_EQ(got, blocks[i]) << i;
  }
  for (const auto& one : out) EXPECT_TRUE(scene.until([&] { return one->test(); }));
}

TEST_F(TcpPort, OneFromAnyRankKeepsItsPlace) {
  Block got_named(1), got_any(1), got_other(1);
  const auto named = recv(0, 1, 1, got_named);
  const auto any = recv(0, any_source, 1, got_any);
  const auto other = recv(0, 2, 1, got_other);
  const Block a{10}, b{20}, c{21};
  const auto first = send(1, 0, 1, a);
  ASSERT_TRUE(both(*first, *named));
  EXPECT_FALSE(any->test());
  const auto second = send(2, 0, 1, b);
  ASSERT_TRUE(both(*second, *any));
  EXPECT_EQ(any->status().source, 2);
  EXPECT_FALSE(other->test()) << "it is for the one before";
  const auto third = send(2, 0, 1, c);
  ASSERT_TRUE(both(*third, *other));
  EXPECT_EQ(got_named, a);
  EXPECT_EQ(got_any, b);
  EXPECT_EQ(got_other, c);
}

TEST_F(TcpPort, AProbeTellsOfBothKinds) {
  const Block small = pattern(10, 1);
  const Block large = pattern(tcp::eager_limit + 5, 2);
  const auto first = send(1, 0, 3, small);
  const auto second = send(2, 0, 4, large);
  ASSERT_TRUE(scene.until([&] {
    return ports[0]->probe(1, user(3)).has_value() &&
           ports[0]->probe(any_source, user(4)).has_value();
  }));
  EXPECT_EQ(ports[0]->probe(any_source, user(3))->count, 10u);
  EXPECT_EQ(ports[0]->probe(2, user(4))->count, large.size());
  EXPECT_EQ(ports[0]->probe(2, user(4))->source, 2);
  EXPECT_FALSE(ports[0]->probe(2, user(3)));
  Block got(large.size());
  const auto in = recv(0, 2, 4, got);
  ASSERT_TRUE(both(*second, *in));
  EXPECT_EQ(got, large);
}

TEST_F(TcpPort, AMessageThatIsTooLongIsSaidOnTheReceiver) {
  for (const std::size_t size : {std::size_t{100}, tcp::eager_limit + 1}) {
    const Block block = pattern(size, 1);
    Block got(size - 1, 9);
    const auto out = send(0, 1, 2, block);
    const auto in = recv(1, 0, 2, got);
    ASSERT_TRUE(scene.until([&] { return out->test(); }));
    EXPECT_THROW(scene.until([&] { return in->test(); }), UsageError);
    EXPECT_THAT(got, Each(9)) << "nothing was written";
    // And the next one is as ever.
    Block next(size);
    const auto more = send(0, 1, 2, block);
    const auto in_more = recv(1, 0, 2, next);
    ASSERT_TRUE(both(*more, *in_more));
    EXPECT_EQ(next, block);
  }
}

TEST_F(TcpPort, AReceiveThatIsGivenUpLeavesItsMessageToTheNext) {
  for (const std::size_t size : {std::size_t{100}, std::size_t{8} * tcp::part_limit}) {
    const Block block = pattern(size, 3);
    Block given_up(size);
    Block got(size);
    const auto out = send(0, 1, 2, block);
    {
      const auto in = recv(1, 0, 2, given_up);
      // Some of it, or all, has come, and nobody has been told.
      for (int i = 0; i < 10; ++i) {
        scene.net(0).turn();
        scene.net(1).turn();
      }
      EXPECT_EQ(in->abandon("a test"), nullptr);
    }
    given_up.assign(size, 0);
    const auto in = recv(1, 0, 2, got);
    ASSERT_TRUE(both(*out, *in)) << size;
    EXPECT_EQ(got, block);
    EXPECT_THAT(given_up, Each(0)) << "nobody writes there any more";
  }
}

TEST_F(TcpPort, ASendThatIsGivenUpInTimeIsNotSeen) {
  Block block = pattern(3 * tcp::part_limit, 3);
  const Block next = pattern(tcp::part_limit + 1, 4);
  for (const bool before_it_leaves : {true, false})
    for (const bool before_the_receive : {true, false}) {
      Block got(block.size());
      std::unique_ptr<Transfers> in;
      if (!before_the_receive) in = recv(1, 0, 2, got);
      auto out = send(0, 1, 2, block);
      if (!before_it_leaves) scene.net(0).turn();
      if (!before_it_leaves && before_the_receive) {
        ASSERT_TRUE(scene.until([&] { return ports[1]->probe(0, user(2)).has_value(); }));
      }
      EXPECT_EQ(out->abandon("a test"), nullptr);
      block[0] ^= 1;  // it is the caller's again
      if (before_the_receive) in = recv(1, 0, 2, got);
      out = send(0, 1, 2, next);
      ASSERT_TRUE(both(*out, *in));
      EXPECT_EQ(in->status().count, next.size());
      got.resize(next.size());
      EXPECT_EQ(got, next);
    }
}

// As short ones are.
TEST_F(TcpPort, ASendThatGoesAheadWholeIsOnItsWayWhenItIsGivenUp) {
  for (const bool before_it_leaves : {true, false}) {
    Block block = pattern(tcp::part_limit, 3);
    const Block whole = block;
    auto out = send(0, 1, 2, block);
    if (!before_it_leaves) {
      ASSERT_TRUE(scene.until([&] { return ports[1]->probe(0, user(2)).has_value(); }));
    }
    EXPECT_EQ(out->abandon("a test"), nullptr);
    block.assign(block.size(), 0);  // it is the caller's again
    Block got(whole.size());
    const auto in = recv(1, 0, 2, got);
    ASSERT_TRUE(scene.until([&] { return in->test(); }));
    EXPECT_EQ(got, whole);
  }
}

TEST_F(TcpPort, ANothingThatIsGivenUpIsKeptForTheNext) {
  const Block nothing;
  Block got;
  const auto out = send(0, 1, 2, nothing);
  {
    const auto in = recv(1, 0, 2, got);
    scene.within(std::chrono::milliseconds(50), [] { return false; });
    EXPECT_EQ(in->abandon("a test"), nullptr);
  }
  const auto in = recv(1, 0, 2, got);
  ASSERT_TRUE(both(*out, *in));
  EXPECT_EQ(in->status().count, 0u);
}

TEST_F(TcpPort, TheFirstPartOfALongMessageIsNotWaitedFor) {
  for (const std::size_t size : {tcp::eager_limit + 1, tcp::part_limit, tcp::part_limit + 1}) {
    const Block block = pattern(size, 3);
    const auto out = send(0, 1, 2, block);
    EXPECT_EQ(scene.within(std::chrono::milliseconds(100), [&] { return out->test(); }),
              size <= tcp::part_limit);
    Block got(size);
    const auto in = recv(1, 0, 2, got);
    ASSERT_TRUE(scene.until([&] { return in->test() && out->test(); }));
    EXPECT_EQ(got, block);
    scene.within(std::chrono::milliseconds(20),
                 [] { return false; });  // there is room for it again
  }
}

TEST_F(TcpPort, ASendThatIsGivenUpInItsMidstEndsTheReceive) {
  const Block block = pattern(std::size_t{64} << 20, 3);
  Block got(block.size());
  const auto in = recv(1, 0, 2, got);
  const auto out = send(0, 1, 2, block);
  const auto has_begun = [&] { return got[0] == block[0] && got[1000] == block[1000]; };
  ASSERT_TRUE(scene.until(has_begun));
  ASSERT_FALSE(out->test());
  EXPECT_NE(out->abandon("a test"), nullptr);
  EXPECT_THROW(scene.until([&] { return in->test(); }), AbortedError);
  // The connection goes on.
  const Block next = pattern(1000, 4);
  Block more(1000);
  const auto out_more = send(0, 1, 2, next);
  const auto in_more = recv(1, 0, 2, more);
  ASSERT_TRUE(both(*out_more, *in_more));
  EXPECT_EQ(more, next);
}

TEST_F(TcpPort, GroupsDoNotHearEachOther) {
  const auto ninth = scene.port(0, 9);
  const auto tenth = scene.port(0, 10);
  const Block a = pattern(50, 1), b = pattern(50, 2);
  const auto out_b = tenth->open();
  out_b->send(1, user(1), sent(b));
  const auto out_a = ninth->open();
  out_a->send(1, user(1), sent(a));
  // The other makes the groups when their messages are there.
  ASSERT_TRUE(scene.until([&] { return int{out_a->test()} + int{out_b->test()} == 2; }));
  scene.within(std::chrono::milliseconds(20), [] { return false; });
  Block got(50);
  auto in = scene.port(1, 9)->open();
  in->recv(0, user(1), room(got));
  ASSERT_TRUE(scene.until([&] { return in->test(); }));
  EXPECT_EQ(got, a);
  in = scene.port(1, 10)->open();
  in->recv(0, user(1), room(got));
  ASSERT_TRUE(scene.until([&] { return in->test(); }));
  EXPECT_EQ(got, b);
}

TEST_F(TcpPort, WhatComesForAGroupThatHasEndedIsDroppedAndCounted) {
  const auto mine = scene.port(0, 9);
  const auto theirs = scene.port(1, 9);
  const Block small = pattern(50, 1), large = pattern(tcp::eager_limit + 1, 2);
  const auto out = mine->open();
  out->send(1, user(1), sent(small));
  out->send(1, user(2), sent(large));
  ASSERT_TRUE(scene.until([&] {
    return theirs->probe(0, user(1)).has_value() && theirs->probe(0, user(2)).has_value();
  }));
  EXPECT_EQ(scene.net(1).dropped(), 0u);
  scene.net(1).close(9);
  EXPECT_EQ(scene.net(1).dropped(), 2u);
  EXPECT_TRUE(scene.until([&] { return out->test(); })) << "the sender does not wait for ever";
  const auto more = mine->open();
  more->send(1, user(1), sent(small));
  more->send(1, user(2), sent(large));
  EXPECT_TRUE(scene.until([&] { return more->test(); }));
  EXPECT_TRUE(scene.until([&] { return scene.net(1).dropped() == 4; }));
  // Many of them: what they cost is given back.
  for (int i = 0; i < 1000; ++i) {
    const auto one = mine->open();
    one->send(1, user(1), sent(large));
    one->send(1, user(1), sent(small));
    ASSERT_TRUE(scene.until([&] { return one->test(); })) << i;
  }
}

// What the other has not received it has not got, beyond the window.
TEST_F(TcpPort, WhatNobodyTakesIsBounded) {
  const Block block = pattern(16 << 10, 1);
  std::vector<std::unique_ptr<Transfers>> out;
  for (int i = 0; i < 100; ++i) out.push_back(send(0, 1, i, block));
  scene.within(std::chrono::milliseconds(200), [] { return false; });
  std::size_t done = 0;
  for (const auto& one : out) done += one->test() ? 1 : 0;
  EXPECT_GT(done, 4u);
  EXPECT_LE(done * block.size(), tcp::eager_window);
  for (int i = 99; i >= 0; --i) {
    Block got(block.size());
    const auto in = recv(1, 0, i, got);
    ASSERT_TRUE(scene.until([&] { return in->test(); })) << i;
    EXPECT_EQ(got, block);
  }
  for (const auto& one : out) EXPECT_TRUE(scene.until([&] { return one->test(); }));
}

TEST_F(TcpPort, WhatGoesAheadIsBoundedToo) {
  const Block block = pattern(tcp::part_limit, 1);
  std::vector<std::unique_ptr<Transfers>> out;
  for (int i = 0; i < 20; ++i) out.push_back(send(0, 1, i, block));
  scene.within(std::chrono::milliseconds(200), [] { return false; });
  EXPECT_TRUE(out[0]->test());
  for (std::size_t i = 1; i < out.size(); ++i) EXPECT_FALSE(out[i]->test()) << i;
  // Short ones have their half of the window.
  const Block small = pattern(10'000, 2);
  const auto beside = send(0, 1, 99, small);
  EXPECT_TRUE(scene.until([&] { return beside->test(); }));
  for (int i = 19; i >= 0; --i) {
    Block got(block.size());
    const auto in = recv(1, 0, i, got);
    ASSERT_TRUE(scene.until([&] { return in->test(); })) << i;
    EXPECT_EQ(got, block);
  }
}

// Also of those that were given up, and those that nobody wanted.
TEST_F(TcpPort, WhatWentAheadIsGivenBack) {
  Block block = pattern(2 * tcp::part_limit, 1);
  for (int i = 0; i < 50; ++i) {
    const auto out = send(0, 1, i, block);
    ASSERT_TRUE(scene.until([&] { return ports[1]->probe(0, user(i)).has_value(); }));
    if (i % 2 == 0) {
      EXPECT_EQ(out->abandon("a test"), nullptr);
      continue;
    }
    Block got(10);
    const auto in = recv(1, 0, i, got);
    EXPECT_THROW(scene.until([&] { return in->test(); }), UsageError) << "it is too long";
    EXPECT_TRUE(scene.until([&] { return out->test(); }));
  }
  block.resize(tcp::part_limit);
  const auto out = send(0, 1, 99, block);
  EXPECT_TRUE(scene.until([&] { return out->test(); })) << "there is room for it again";
}

TEST(TcpPortV6, GoesByIPv6) {
  std::optional<TcpScene> scene;
  try {
    scene.emplace(2, tcp::Limits{}, "::1");
  } catch (const NetworkError& error) {
    GTEST_SKIP() << error.what();
  }
  const Block block = pattern(tcp::eager_limit + 1, 1);
  Block got(block.size());
  const auto out = scene->port(0)->open();
  out->send(1, user(1), sent(block));
  const auto in = scene->port(1)->open();
  in->recv(0, user(1), room(got));
  EXPECT_TRUE(scene->until([&] { return int{out->test()} + int{in->test()} == 2; }));
  EXPECT_EQ(got, block);
}

}  // namespace
}  // namespace hymn::test
