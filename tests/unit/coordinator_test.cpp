// What the coordinator tells whom of ranks that come, are silent and are lost.
#include <gmock/gmock.h>

#include "tests/unit/coordinator_scene.hpp"

namespace hymn::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST_F(CoordinatorTest, NothingIsSaidOfThoseWhoAreHere) {
  for (int rank = 0; rank < size; ++rank) coordinator->join(rank, now);
  EXPECT_THAT(letters, IsEmpty());
  pass(1s);
  EXPECT_EQ(take<Beat>().size(), 4u) << "a sign of life for everybody";
}

TEST_F(CoordinatorTest, BeatsGoToThoseWhoAreHere) {
  coordinator->join(2, now);
  pass(1s);
  const auto beats = take<Beat>();
  ASSERT_EQ(beats.size(), 1u);
  EXPECT_EQ(beats[0].first, 2);
}

TEST_F(CoordinatorTest, LossIsToldToAllOthersOnce) {
  all_join();
  lose(1, "the cable");
  const auto told = take<News>();
  ASSERT_EQ(told.size(), 3u);
  for (const auto& [to, message] : told) {
    EXPECT_NE(to, 1);
    EXPECT_EQ(message.news, (PeerNews{.rank = 1, .state = PeerState::lost, .detail = "the cable"}));
  }
  lose(1);
  say(2, News{{.rank = 1, .state = PeerState::lost, .detail = "again"}});
  EXPECT_THAT(news(), IsEmpty());
  EXPECT_EQ(coordinator->state_of(1), PeerState::lost);
}

TEST_F(CoordinatorTest, LostMayTurnOutToBeDead) {
  all_join();
  lose(1);
  letters.clear();
  say(3, News{{.rank = 1, .state = PeerState::dead, .detail = "killed by signal 9"}});
  EXPECT_THAT(news(), ElementsAre("to 0: 1 is dead", "to 2: 1 is dead", "to 3: 1 is dead"));
  say(2, News{{.rank = 1, .state = PeerState::lost}});
  EXPECT_THAT(news(), IsEmpty());
  coordinator->join(1, now);
  EXPECT_EQ(coordinator->state_of(1), PeerState::dead) << "the dead do not come back";
}

TEST_F(CoordinatorTest, WhoWasLostComesBack) {
  all_join();
  lose(1, "the cable");
  letters.clear();
  coordinator->join(1, now);
  const auto told = take<News>();
  ASSERT_EQ(told.size(), 3u);
  for (const auto& [to, message] : told) {
    EXPECT_NE(to, 1);
    EXPECT_EQ(message.news, (PeerNews{.rank = 1, .state = PeerState::alive}));
  }
  lose(1);
  EXPECT_EQ(coordinator->state_of(1), PeerState::lost);
}

TEST_F(CoordinatorTest, LateJoinersHearWhatTheyMissed) {
  coordinator->join(0, now);
  coordinator->join(1, now);
  say(1, Goodbye{});
  lose(1);
  letters.clear();
  coordinator->join(2, now);
  EXPECT_THAT(news(), ElementsAre("to 2: 1 is left"));
}

TEST_F(CoordinatorTest, WhoSpeaksWithTheCoordinatorIsNotLost) {
  all_join();
  for (const PeerState heard : {PeerState::lost, PeerState::stalled}) {
    say(0, News{{.rank = 1, .state = heard}});
    EXPECT_THAT(news(), ElementsAre("to 0: 1 is alive"))
        << "who has heard it elsewhere is set right";
  }
  EXPECT_EQ(coordinator->state_of(1), PeerState::alive);
  say(0, News{{.rank = 1, .state = PeerState::dead}});
  EXPECT_EQ(coordinator->state_of(1), PeerState::dead) << "whoever says dead has seen it";
}

TEST_F(CoordinatorTest, SilenceIsAStallAndAWordEndsIt) {
  all_join();
  pass_alive(2900ms, {0, 2, 3});
  EXPECT_THAT(news(),
              ElementsAre("to 0: 1 is stalled", "to 2: 1 is stalled", "to 3: 1 is stalled"));
  pass_alive(20s, {0, 2, 3});
  EXPECT_THAT(news(), IsEmpty());
  say(1, Beat{});
  EXPECT_THAT(news(), ElementsAre("to 0: 1 is alive", "to 2: 1 is alive", "to 3: 1 is alive"));
  EXPECT_EQ(coordinator->state_of(1), PeerState::alive);
  pass_alive(2500ms, {0, 2, 3});
  EXPECT_THAT(news(), IsEmpty()) << "the silence begins anew";
  pass_alive(500ms, {0, 2, 3});
  EXPECT_EQ(coordinator->state_of(1), PeerState::stalled);
}

TEST_F(CoordinatorTest, StallsTellHowLong) {
  open({.stalled_after = 2s});
  all_join();
  now += 2s;
  for (const int rank : {0, 2, 3}) say(rank, Beat{});
  letters.clear();
  coordinator->tick(now);
  const auto told = take<News>();
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(told[0].second.news.detail, "no sign of life for 2.0 s");
}

TEST_F(CoordinatorTest, AbsentRanksAreLostInTheEnd) {
  pass(1h);
  EXPECT_THAT(letters, IsEmpty()) << "the coordinator waits for the first";
  coordinator->join(0, now);
  pass_alive(10s, {0});
  EXPECT_THAT(news(),
              ElementsAre("to 0: 1 is stalled", "to 0: 2 is stalled", "to 0: 3 is stalled"));
  coordinator->join(2, now);
  EXPECT_THAT(news(),
              UnorderedElementsAre("to 0: 2 is alive", "to 2: 1 is stalled", "to 2: 3 is stalled"));
  pass_alive(19500ms, {0, 2});
  EXPECT_THAT(news(), IsEmpty());
  pass_alive(500ms, {0, 2});
  EXPECT_THAT(news(), ElementsAre("to 0: 1 is lost", "to 2: 1 is lost", "to 0: 3 is lost",
                                  "to 2: 3 is lost"));
  pass_alive(10s, {0, 2});
  EXPECT_THAT(news(), IsEmpty());
  coordinator->join(3, now);
  EXPECT_THAT(news(),
              UnorderedElementsAre("to 0: 3 is alive", "to 2: 3 is alive", "to 3: 1 is lost"));
}

TEST_F(CoordinatorTest, MarksAreKeptAndPassedOn) {
  all_join();
  say(1, Beat{{{7, 3, 2}, {8, 1, 0}}});
  say(1, Beat{{{7, 4, 3}}});
  lose(1);
  const auto told = take<News>();
  ASSERT_EQ(told.size(), 3u);
  EXPECT_THAT(told[0].second.news.marks, ElementsAre(GroupMark{7, 4, 3}, GroupMark{8, 1, 0}));
  // Who has looked at its memory knows better.
  say(0, News{{.rank = 1, .state = PeerState::dead, .marks = {{7, 5, 5}}}});
  const auto better = take<News>();
  ASSERT_FALSE(better.empty());
  EXPECT_THAT(better[0].second.news.marks, ElementsAre(GroupMark{7, 5, 5}, GroupMark{8, 1, 0}));
}

TEST_F(CoordinatorTest, AnAbortIsPassedOnOnce) {
  coordinator->join(0, now);
  coordinator->join(1, now);
  coordinator->join(2, now);
  const AbortGroup first{7, "the first reason", {3}};
  say(1, first);
  EXPECT_THAT(take<AbortGroup>(), ElementsAre(std::pair(0, first), std::pair(2, first)));
  say(0, AbortGroup{7, "another reason"});
  EXPECT_THAT(letters, IsEmpty());
  coordinator->join(3, now);
  EXPECT_THAT(take<AbortGroup>(), ElementsAre(std::pair(3, first)));
  say(0, AbortGroup{8, "another group"});
  EXPECT_EQ(take<AbortGroup>().size(), 3u);
}

// Else what is told of a rank, when it goes, would be too large for a message one day.
TEST_F(CoordinatorTest, MarksOfOldGroupsAreForgotten) {
  all_join();
  for (std::uint64_t uid = 1; uid <= 100'000; ++uid) say(1, Beat{{{uid, 2, 1}}});
  lose(1);
  const auto told = take<News>();
  ASSERT_FALSE(told.empty());
  const auto& marks = told[0].second.news.marks;
  EXPECT_LT(marks.size(), 10'000u);
  EXPECT_EQ(marks.front().uid, 1u) << "the group of all ranks";
  EXPECT_EQ(marks.back().uid, 100'000u);
}

TEST_F(CoordinatorTest, WhoMovedIsNoNewsWhenItGoes) {
  all_join();
  EXPECT_FALSE(coordinator->is_deserted());
  say(1, Moved{});
  lose(1);
  EXPECT_TRUE(coordinator->is_deserted());
  EXPECT_THAT(news(), IsEmpty());
  lose(2);
  EXPECT_EQ(news().size(), 2u) << "others are missed still";
}

TEST_F(CoordinatorTest, StrangeRanksAreNobody) {
  all_join();
  for (const int rank : {-1, size, 1 << 30}) {
    coordinator->join(rank, now);
    say(rank, Goodbye{});
    lose(rank);
    say(0, News{{.rank = rank, .state = PeerState::dead}});
  }
  EXPECT_THAT(letters, IsEmpty());
}

}  // namespace
}  // namespace hymn::test
