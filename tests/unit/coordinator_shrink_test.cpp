// How a coordinator settles who is left of a group.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "control/coordinator.hpp"

namespace hymn::test {
namespace {

using namespace control;
using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class CoordinatorShrink : public ::testing::Test {
 protected:
  static constexpr int size = 4;

  void SetUp() override { open({.index = 0}); }
  void open(CoordinatorOptions options) {
    coordinator = std::make_unique<Coordinator>(
        size, std::move(options), [this](int rank, const Message& message) {
          if (const auto* verdict = std::get_if<ShrinkVerdict>(&message))
            verdicts.emplace_back(rank, *verdict);
        });
    for (int rank = 0; rank < size; ++rank) coordinator->join(rank, now);
  }
  void call(int rank, std::vector<int> members = {0, 1, 2, 3}) {
    coordinator->receive(rank, ShrinkCall{7, std::move(members)}, now);
  }
  /// Rank 3 has died: what the others are told.
  ShrinkVerdict settle_without_3() {
    die(3);
    for (const int rank : {0, 1, 2}) call(rank);
    EXPECT_THAT(told(), ElementsAre(0, 1, 2));
    return last;
  }
  void die(int rank) { coordinator->lose(rank, "gone", now); }
  /// To whom a verdict went since the last time, which must be the same for all: `last`.
  std::vector<int> told() {
    std::vector<int> ranks;
    for (const auto& [rank, verdict] : verdicts) {
      if (ranks.empty()) last = verdict;
      EXPECT_EQ(verdict, last) << "rank " << rank << " hears another one";
      ranks.push_back(rank);
    }
    verdicts.clear();
    return ranks;
  }

  std::unique_ptr<Coordinator> coordinator;
  std::vector<std::pair<int, ShrinkVerdict>> verdicts;
  ShrinkVerdict last;
  TimePoint now = TimePoint() + 1h;
};

TEST_F(CoordinatorShrink, ForgetsTheCallsOfWhoIsGone) {
  call(2);
  call(3);
  die(3);
  EXPECT_EQ(coordinator->unsettled(), 1u);
  die(2);
  EXPECT_EQ(coordinator->unsettled(), 0u) << "nobody waits for that any more";
  call(0);
  call(1);
  EXPECT_THAT(told(), ElementsAre(0, 1));
}

TEST_F(CoordinatorShrink, SettlesWhenAllWhoLiveHaveCalled) {
  die(3);
  call(0);
  call(2);
  EXPECT_THAT(told(), IsEmpty());
  call(1);
  EXPECT_THAT(told(), ElementsAre(0, 1, 2));
  EXPECT_EQ(last.uid, 7u);
  EXPECT_THAT(last.survivors, ElementsAre(0, 1, 2));
  EXPECT_GE(last.new_uid, first_shrunk_uid);
}

TEST_F(CoordinatorShrink, OnlyMembersAreWaitedFor) {
  call(3, {1, 3});
  EXPECT_THAT(told(), IsEmpty());
  call(1, {1, 3});
  EXPECT_THAT(told(), ElementsAre(1, 3));
  EXPECT_THAT(last.survivors, ElementsAre(1, 3));
}

TEST_F(CoordinatorShrink, ADeathInTheMiddleSettlesIt) {
  call(0);
  call(1);
  call(2);
  EXPECT_THAT(told(), IsEmpty());
  die(3);
  EXPECT_THAT(told(), ElementsAre(0, 1, 2));
}

TEST_F(CoordinatorShrink, WhoCalledAndDiedIsNoSurvivor) {
  call(0);
  call(3);
  die(3);
  call(1);
  coordinator->receive(2, Goodbye{}, now);
  EXPECT_THAT(told(), ElementsAre(0, 1));
  EXPECT_THAT(last.survivors, ElementsAre(0, 1));
}

TEST_F(CoordinatorShrink, AStalledRankIsWaitedFor) {
  call(0);
  call(1);
  call(2);
  coordinator->receive(0, News{{.rank = 3, .state = PeerState::stalled}}, now);
  EXPECT_THAT(told(), IsEmpty());
  call(3);
  EXPECT_THAT(last = verdicts.at(0).second,
              ::testing::Field(&ShrinkVerdict::survivors, ElementsAre(0, 1, 2, 3)));
}

TEST_F(CoordinatorShrink, WhoAsksAgainHearsTheSame) {
  const ShrinkVerdict first = settle_without_3();
  call(1);
  EXPECT_THAT(told(), ElementsAre(1));
  EXPECT_EQ(last, first);
}

TEST_F(CoordinatorShrink, AnotherDeathNeedsAnotherVerdict) {
  const std::uint64_t first = settle_without_3().new_uid;
  die(2);
  call(1);
  EXPECT_THAT(told(), IsEmpty());
  call(0);
  EXPECT_THAT(told(), ElementsAre(0, 1));
  EXPECT_NE(last.new_uid, first);
  EXPECT_THAT(last.survivors, ElementsAre(0, 1));
}

TEST_F(CoordinatorShrink, GroupsAreSettledApart) {
  coordinator->receive(0, ShrinkCall{7, {0, 1}}, now);
  coordinator->receive(2, ShrinkCall{8, {2, 3}}, now);
  coordinator->receive(3, ShrinkCall{8, {2, 3}}, now);
  EXPECT_THAT(told(), ElementsAre(2, 3));
  const std::uint64_t one = last.new_uid;
  coordinator->receive(1, ShrinkCall{7, {0, 1}}, now);
  EXPECT_THAT(told(), ElementsAre(0, 1));
  EXPECT_NE(last.new_uid, one);
}

TEST_F(CoordinatorShrink, CoordinatorsNeverGiveTheSameNumber) {
  std::set<std::uint64_t> numbers;
  for (const int index : {0, 1, 2}) {
    open({.index = index});
    for (std::uint64_t uid = 1; uid <= 3; ++uid) coordinator->receive(0, ShrinkCall{uid, {0}}, now);
    for (const auto& [rank, verdict] : verdicts) numbers.insert(verdict.new_uid);
    verdicts.clear();
  }
  EXPECT_EQ(numbers.size(), 9u);
}

TEST_F(CoordinatorShrink, AVerdictOfAnotherCoordinatorHolds) {
  die(3);
  call(0);
  const ShrinkVerdict elsewhere{7, first_shrunk_uid + 5, {0, 1, 2}};
  coordinator->receive(1, elsewhere, now);
  EXPECT_THAT(told(), ElementsAre(0));
  EXPECT_EQ(last, elsewhere);
  call(2);
  EXPECT_THAT(told(), ElementsAre(2));
  EXPECT_EQ(last, elsewhere);
}

// A rank that has heard the verdict brings it to the next coordinator, where others have called
// again because one of its survivors has died since.
TEST_F(CoordinatorShrink, AVerdictThatIsOutOfDateIsNot) {
  die(3);
  call(0);
  call(1);
  coordinator->receive(2, ShrinkVerdict{7, first_shrunk_uid + 5, {0, 1, 2, 3}}, now);
  EXPECT_THAT(told(), IsEmpty());
  call(2);
  EXPECT_THAT(told(), ElementsAre(0, 1, 2));
  EXPECT_THAT(last.survivors, ElementsAre(0, 1, 2));
}

// All had it from the coordinator before, and call again; some have said so here before others
// come, who tell of it.
TEST_F(CoordinatorShrink, AVerdictThatOneHasRejectedIsVoidForAll) {
  die(3);
  const ShrinkVerdict elsewhere{7, first_shrunk_uid + 5, {0, 1, 2}};
  const ShrinkCall rejection{.uid = 7, .void_uid = elsewhere.new_uid};
  coordinator->receive(2, elsewhere, now);
  coordinator->receive(0, rejection, now);
  call(0);
  coordinator->receive(1, elsewhere, now);
  EXPECT_THAT(told(), IsEmpty());
  coordinator->receive(1, rejection, now);
  call(1);
  coordinator->receive(2, rejection, now);
  EXPECT_THAT(told(), IsEmpty());
  call(2);
  EXPECT_THAT(told(), ElementsAre(0, 1, 2));
  EXPECT_NE(last.new_uid, elsewhere.new_uid);
}

// It has rejected an earlier one.
TEST_F(CoordinatorShrink, TheVerdictInForceStaysWhenAnotherIsRejected) {
  die(3);
  const ShrinkVerdict elsewhere{7, first_shrunk_uid + 5, {0, 1, 2}};
  coordinator->receive(2, elsewhere, now);
  coordinator->receive(0, ShrinkCall{.uid = 7, .void_uid = first_shrunk_uid + 4}, now);
  call(1);
  EXPECT_THAT(told(), ElementsAre(1));
  EXPECT_EQ(last, elsewhere);
}

TEST_F(CoordinatorShrink, WhoDoesNotWaitAnyMoreMakesTheVerdictInForceVoid) {
  const ShrinkVerdict first = settle_without_3();
  call(1, {});
  coordinator->receive(2, first, now);
  call(0);
  EXPECT_THAT(told(), IsEmpty());
}

TEST_F(CoordinatorShrink, StrangeMembersAreNotWaitedFor) {
  call(0, {0, -1, 99});
  EXPECT_THAT(told(), ElementsAre(0));
}

// Its connection was lost, perhaps for want of file descriptors.
TEST_F(CoordinatorShrink, WhoIsSeenAliveIsNotShrunkAway) {
  bool lives = true;
  open({.is_seen_alive = [&](int rank) { return rank == 3 && lives; }});
  die(2);
  die(3);
  EXPECT_EQ(coordinator->state_of(3), PeerState::stalled);
  call(0);
  call(1);
  EXPECT_THAT(told(), IsEmpty());
  // It comes again.
  coordinator->join(3, now);
  EXPECT_EQ(coordinator->state_of(3), PeerState::alive);
  call(3);
  EXPECT_THAT(told(), ElementsAre(0, 1, 3));
  // It is seen to end.
  die(3);
  lives = false;
  coordinator->receive(0, News{{.rank = 3, .state = PeerState::dead}}, now);
  EXPECT_EQ(coordinator->state_of(3), PeerState::dead);
}

}  // namespace
}  // namespace hymn::test
