// What the members of a group hear of its number before they make it.
#include "runtime/world/local_numbers.hpp"

#include <gtest/gtest.h>

#include "control/coordinator.hpp"
#include "p2p/threads/thread_hub.hpp"

namespace hymn::test {
namespace {

using detail::LocalName;
using detail::LocalNumbers;

/// Fails where it is told to.
class Fragile final : public Exchange {
 public:
  Fragile(std::shared_ptr<ThreadHub> hub, int rank, const int& broken_to)
      : exchange_(std::move(hub), rank), broken_to_(broken_to) {}
  int rank() const override { return exchange_.rank(); }
  int size() const override { return exchange_.size(); }
  void send(int to, std::uint64_t tag, std::span<const std::byte> bytes) override {
    if (to == broken_to_) throw BackendError("it is broken", "toy", 1);
    exchange_.send(to, tag, bytes);
  }
  std::optional<ExchangeMessage> try_receive(int from, std::uint64_t tag) override {
    return exchange_.try_receive(from, tag);
  }
  std::string name() const override { return "fragile"; }

 private:
  ThreadExchange exchange_;
  const int& broken_to_;
};

class LocalNumbersTest : public ::testing::Test {
 protected:
  static constexpr int ranks = 3;

  LocalNumbersTest() {
    const auto hub = std::make_shared<ThreadHub>(ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      muxes_.push_back(ExchangeMux::over(std::make_shared<Fragile>(hub, rank, broken_to_)));
      worlds_.push_back(muxes_.back()->channel(ExchangeMux::world_channel));
      numbers_.push_back(std::make_unique<LocalNumbers>(*muxes_.back(), rank, ranks));
    }
  }
  LocalNumbers& of(int rank) { return *numbers_[static_cast<std::size_t>(rank)]; }
  LocalNumbers::Number led(int leader, const LocalName& name) {
    return *of(leader).try_take(*of(leader).claim(name));
  }
  std::uint64_t announced(int leader, const LocalName& name) { return led(leader, name).uid; }
  /// 0: nothing has been announced.
  std::uint64_t taken(int rank, const LocalName& name) {
    const auto number = take(rank, name);
    return number ? number->uid : 0;
  }
  std::optional<LocalNumbers::Number> take(int rank, const LocalName& name) {
    return of(rank).try_take(*of(rank).claim(name));
  }

  int broken_to_ = -1;  ///< nothing can be sent to that rank
  std::vector<std::shared_ptr<ExchangeMux>> muxes_;
  std::vector<std::shared_ptr<Exchange>> worlds_;
  std::vector<std::unique_ptr<LocalNumbers>> numbers_;
};

TEST_F(LocalNumbersTest, AllMembersTakeTheSame) {
  const LocalName all{{0, 1, 2}, ""};
  EXPECT_EQ(taken(1, all), 0u);
  const std::uint64_t uid = announced(0, all);
  EXPECT_EQ(taken(1, all), uid);
  EXPECT_EQ(taken(2, all), uid);
  EXPECT_EQ(taken(1, all), 0u) << "once";
}

TEST_F(LocalNumbersTest, EachGroupGetsItsOwn) {
  const LocalName pair{{0, 2}, ""};
  const LocalName tagged{{0, 2}, "x"};
  const LocalName all{{0, 1, 2}, ""};
  const std::uint64_t first = announced(0, pair);
  const std::uint64_t second = announced(0, tagged);
  const std::uint64_t third = announced(0, all);
  const std::uint64_t fourth = announced(0, pair);
  EXPECT_EQ(taken(2, all), third);
  EXPECT_EQ(taken(2, tagged), second);
  EXPECT_EQ(taken(2, pair), first);
  EXPECT_EQ(taken(2, pair), fourth);
  EXPECT_EQ(taken(1, pair), 0u) << "it is no member";
}

TEST_F(LocalNumbersTest, RanksDrawFromNumbersOfTheirOwn) {
  EXPECT_EQ(of(0).draw(), control::first_local_uid);
  EXPECT_EQ(announced(1, {{1, 2}, ""}), control::first_local_uid_of(1, ranks));
  EXPECT_EQ(of(1).draw(), control::first_local_uid_of(1, ranks) + 1);
  EXPECT_LT(control::undrawn_uid(0, ranks), control::first_local_uid_of(1, ranks));
  EXPECT_LT(control::undrawn_uid(ranks - 1, ranks), control::first_shrunk_uid);
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_TRUE(control::is_undrawn(control::undrawn_uid(rank, ranks), ranks));
    EXPECT_FALSE(control::is_undrawn(control::first_local_uid_of(rank, ranks), ranks));
  }
  EXPECT_FALSE(control::is_undrawn(0, ranks));
}

TEST_F(LocalNumbersTest, CallsAreServedInTheirOrder) {
  const LocalName pair{{0, 1}, ""};
  const auto first = of(1).claim(pair);
  const auto second = of(1).claim(pair);
  const std::uint64_t uid = announced(0, pair);
  EXPECT_FALSE(of(1).try_take(*second)) << "it may have begun sooner, on another thread";
  EXPECT_EQ(of(1).try_take(*first)->uid, uid);
  const std::uint64_t next = announced(0, pair);
  EXPECT_EQ(of(1).try_take(*second)->uid, next);
}

// What is chained to an operation may make a group while the same thread waits for another.
TEST_F(LocalNumbersTest, ALaterCallNeedNotWaitUntilEarlierOnesLook) {
  const LocalName pair{{0, 1}, ""};
  const auto first = of(1).claim(pair);
  const auto second = of(1).claim(pair);
  const auto third = of(1).claim(pair);
  const std::uint64_t uid = announced(0, pair);
  const std::uint64_t next = announced(0, pair);
  EXPECT_EQ(of(1).try_take(*second)->uid, next);
  EXPECT_FALSE(of(1).try_take(*third));
  EXPECT_EQ(of(1).try_take(*first)->uid, uid);
  EXPECT_EQ(of(1).try_take(*third), std::nullopt);
}

TEST_F(LocalNumbersTest, WhatWasWithdrawnBeforeItWasTakenIsMadeUpForByTheNext) {
  const LocalName pair{{0, 1}, ""};
  const auto first = of(1).claim(pair);
  const std::uint64_t vain = announced(0, pair);
  of(0).withdraw(pair, vain);
  EXPECT_FALSE(of(1).try_take(*first));
  const std::uint64_t good = announced(0, pair);
  EXPECT_EQ(of(1).try_take(*first)->uid, good);
}

TEST_F(LocalNumbersTest, AClaimThatIsDroppedKeepsNoPlace) {
  const LocalName pair{{0, 1}, ""};
  of(1).claim(pair);
  of(0).claim(pair);
  const std::uint64_t uid = announced(0, pair);
  EXPECT_EQ(taken(1, pair), uid) << "the one before has been withdrawn";
}

TEST_F(LocalNumbersTest, WhatNotAllCanBeToldIsWithdrawn) {
  const LocalName all{{0, 1, 2}, ""};
  broken_to_ = 2;
  EXPECT_THROW(of(0).claim(all), BackendError);
  EXPECT_EQ(taken(1, all), 0u);
  broken_to_ = -1;
  const std::uint64_t uid = announced(0, all);
  EXPECT_EQ(taken(1, all), uid);
  EXPECT_EQ(taken(2, all), uid);
}

TEST_F(LocalNumbersTest, OnlySoMuchIsSentToWhoNeverAsks) {
  const LocalName pair{{0, 1}, ""};
  std::size_t groups = 0;
  const auto give_up_many = [&] {
    for (groups = 0; groups <= LocalNumbers::most_unheard; ++groups) of(0).claim(pair);
  };
  EXPECT_THROW(give_up_many(), ResourceError);
  EXPECT_EQ(groups, LocalNumbers::most_unheard / 2);
  EXPECT_NO_THROW(of(0).claim({{0, 2}, ""}));
  // It comes, and hears all of it.
  EXPECT_EQ(taken(1, pair), 0u);
  const std::uint64_t uid = announced(0, pair);
  EXPECT_EQ(taken(1, pair), uid);
}

TEST_F(LocalNumbersTest, WhatIsWithdrawnIsNotTaken) {
  const LocalName pair{{0, 1}, ""};
  const std::uint64_t vain = announced(0, pair);
  const std::uint64_t good = announced(0, pair);
  of(0).withdraw(pair, vain);
  EXPECT_EQ(taken(1, pair), good);
  of(0).withdraw(pair, good);
  EXPECT_EQ(taken(1, pair), 0u) << "it has been taken before";
}

// The word that it is withdrawn is still on its way when the first call takes it.
TEST_F(LocalNumbersTest, WhoHasTakenWhatWasWithdrawnIsServedBeforeLaterCalls) {
  const LocalName pair{{0, 1}, ""};
  const auto first = of(1).claim(pair);
  const auto second = of(1).claim(pair);
  const std::uint64_t vain = announced(0, pair);
  EXPECT_EQ(of(1).try_take(*first)->uid, vain);
  of(0).withdraw(pair, vain);
  of(1).wait_again(*first);
  EXPECT_FALSE(of(1).try_take(*first));
  const std::uint64_t good = announced(0, pair);
  const std::uint64_t later = announced(0, pair);
  EXPECT_EQ(of(1).try_take(*second)->uid, later);
  EXPECT_EQ(of(1).try_take(*first)->uid, good);
}

// Others of the group may send before this rank asks for it.
TEST_F(LocalNumbersTest, WhatComesForTheGroupIsKept) {
  const LocalName pair{{0, 1}, ""};
  const LocalNumbers::Number leads = led(0, pair);
  leads.channel->send(1, 5, std::as_bytes(std::span("word")));
  EXPECT_EQ(taken(1, {{0, 1}, "other"}), 0u);  // it hears of both
  const auto number = take(1, pair);
  ASSERT_TRUE(number);
  EXPECT_TRUE(number->channel->try_receive(0, 5));
}

}  // namespace
}  // namespace hymn::test
