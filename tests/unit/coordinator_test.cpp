// The coordinator of the control plane, with made-up times: what it tells whom.
#include "control/coordinator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hymn::test {
namespace {

using namespace control;
using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

/// A coordinator, and all that it says.
class CoordinatorTest : public ::testing::Test {
 protected:
  struct Letter {
    int to;
    Message message;
  };

  static constexpr int size = 4;

  void open(CoordinatorOptions options = {}) {
    coordinator = std::make_unique<Coordinator>(
        size, options,
        [this](int rank, const Message& message) { letters.push_back({rank, message}); });
  }
  void all_join() {
    for (int rank = 0; rank < size; ++rank) coordinator->join(rank, now);
    letters.clear();
  }
  void SetUp() override { open(); }

  void say(int rank, Message message) { coordinator->receive(rank, std::move(message), now); }
  void lose(int rank, const std::string& why = "the other end has closed it") {
    coordinator->lose(rank, why, now);
  }
  void pass(Duration time) {
    now += time;
    coordinator->tick(now);
  }
  /// Time goes by, in which these ranks show that they live.
  void pass_alive(Duration time, std::initializer_list<int> ranks) {
    for (Duration step = 0s; step < time; step += 500ms) {
      now += 500ms;
      for (const int rank : ranks) say(rank, Beat{});
      coordinator->tick(now);
    }
  }

  /// What was said since the last time that this was asked, of one kind.
  template <class Kind>
  std::vector<std::pair<int, Kind>> take() {
    std::vector<std::pair<int, Kind>> found;
    for (const Letter& letter : std::exchange(letters, {}))
      if (const Kind* kind = std::get_if<Kind>(&letter.message))
        found.emplace_back(letter.to, *kind);
    return found;
  }
  /// "to 2: 1 is lost", sorted as they came.
  std::vector<std::string> news() {
    std::vector<std::string> told;
    for (const auto& [to, message] : take<News>())
      told.push_back("to " + std::to_string(to) + ": " + std::to_string(message.news.rank) +
                     " is " + std::string(to_string(message.news.state)));
    return told;
  }

  std::vector<Letter> letters;
  std::unique_ptr<Coordinator> coordinator;
  TimePoint now = TimePoint() + 1h;
};

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

TEST_F(CoordinatorTest, LeavingIsFinalAndNoFailure) {
  all_join();
  say(1, Goodbye{{{7, 3, 3}}});
  const auto told = take<News>();
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(told[0].second.news.state, PeerState::left);
  EXPECT_THAT(told[0].second.news.marks, ElementsAre(GroupMark{7, 3, 3}));
  lose(1);
  say(2, News{{.rank = 1, .state = PeerState::dead}});
  say(2, News{{.rank = 1, .state = PeerState::stalled}});
  pass_alive(60s, {0, 2, 3});
  EXPECT_THAT(news(), IsEmpty());
  EXPECT_EQ(coordinator->state_of(1), PeerState::left);
}

TEST_F(CoordinatorTest, LastWordsAreToldAfterOthersHaveSeenTheEnd) {
  all_join();
  say(2, News{{.rank = 1, .state = PeerState::left}});
  letters.clear();
  say(1, Goodbye{{{7, 3, 3}}});
  const auto told = take<News>();
  ASSERT_EQ(told.size(), 3u);
  EXPECT_THAT(told[0].second.news.marks, ElementsAre(GroupMark{7, 3, 3}));
}

TEST_F(CoordinatorTest, AFlushIsAnsweredWhenAllWhoLiveAreHere) {
  for (const int rank : {0, 1, 2}) coordinator->join(rank, now);
  say(1, Flush{4});
  say(0, Flush{9});
  say(1, Goodbye{});
  EXPECT_THAT(take<Flush>(), IsEmpty()) << "rank 3 may be on its way from another coordinator";
  coordinator->join(3, now);
  ASSERT_THAT(letters, SizeIs(3));
  EXPECT_EQ(letters[0].to, 3) << "it hears first what the answers speak of";
  EXPECT_THAT(take<Flush>(), ElementsAre(std::pair(1, Flush{4}), std::pair(0, Flush{9})));
  // Who is gone is not waited for.
  lose(2);
  say(0, Flush{10});
  EXPECT_THAT(take<Flush>(), ElementsAre(std::pair(0, Flush{10})));
}

TEST_F(CoordinatorTest, WhoAsksForAFlushIsForgottenWithItsConnection) {
  for (const int rank : {0, 1, 2}) coordinator->join(rank, now);
  say(1, Flush{4});
  lose(1);
  coordinator->join(1, now);
  coordinator->join(3, now);
  EXPECT_THAT(take<Flush>(), IsEmpty());
  say(1, Flush{4});
  EXPECT_THAT(take<Flush>(), ElementsAre(std::pair(1, Flush{4})));
}

TEST_F(CoordinatorTest, AGoodbyeIsPassedOnOnce) {
  all_join();
  say(1, Goodbye{});
  say(1, Goodbye{});
  EXPECT_EQ(take<News>().size(), 3u);
}

TEST_F(CoordinatorTest, WhoLeavesBecauseOfAnErrorSaysWhoseItWas) {
  all_join();
  say(1, Goodbye{{}, "rank 3 has failed", {3}, true});
  auto told = take<News>();
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(told[0].second.news.state, PeerState::left);
  EXPECT_EQ(told[0].second.news.detail, "it has ended its world because of an error")
      << "the story of rank 3 is its own";
  EXPECT_THAT(told[0].second.news.culprits, ElementsAre(3));
  EXPECT_TRUE(told[0].second.news.broke_off);
  say(2, Goodbye{{}, "out of memory", {2}, true});
  told = take<News>();
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(told[0].second.news.detail,
            "it has ended its world because of an error: out of memory");
  say(0, Goodbye{{}, "rank 3 has failed", {3}});
  told = take<News>();
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(told[0].second.news.detail, "it has ended its world after an error");
  EXPECT_THAT(told[0].second.news.culprits, ElementsAre(3));
  EXPECT_FALSE(told[0].second.news.broke_off);
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

TEST_F(CoordinatorTest, DumpsAreAskedOfAllOthers) {
  all_join();
  lose(3);
  letters.clear();
  say(1, DumpNow{"why"});
  EXPECT_THAT(take<DumpNow>(),
              ElementsAre(std::pair(0, DumpNow{"why"}), std::pair(2, DumpNow{"why"})));
}

TEST_F(CoordinatorTest, DumpsAreAskedOfThoseWhoComeLaterToo) {
  for (const int rank : {0, 1, 2}) coordinator->join(rank, now);
  letters.clear();
  say(1, DumpNow{"why"});
  EXPECT_THAT(take<DumpNow>(),
              ElementsAre(std::pair(0, DumpNow{"why"}), std::pair(2, DumpNow{"why"})));
  coordinator->join(3, now);
  EXPECT_THAT(take<DumpNow>(), ElementsAre(std::pair(3, DumpNow{"why"})));
  lose(3);
  coordinator->join(3, now);
  EXPECT_THAT(take<DumpNow>(), IsEmpty());
}

TEST_F(CoordinatorTest, QuestionsGoToThoseWhoAreAskedAndHere) {
  coordinator->join(0, now);
  coordinator->join(1, now);
  coordinator->join(2, now);
  say(2, Goodbye{});
  letters.clear();
  // Whatever it says, who asks is who it came from.
  say(0, Question{.id = 5, .asker = 3, .about = 7, .asked = {1, 0, 2, 3, -1, 99}});
  EXPECT_THAT(take<Question>(),
              ElementsAre(std::pair(1, Question{.id = 5, .asker = 0, .about = 7})));
}

TEST_F(CoordinatorTest, AnswersGoToTheAskerAlone) {
  all_join();
  say(1, Answer{5, 0, {.rank = 3, .entered = 2}});
  EXPECT_THAT(take<Answer>(), ElementsAre(std::pair(0, Answer{5, 0, {.rank = 1, .entered = 2}})));
  say(1, Answer{5, -1, {}});
  say(1, Answer{5, 99, {}});
  lose(2);
  letters.clear();
  say(1, Answer{5, 2, {}});
  EXPECT_THAT(letters, IsEmpty());
}

TEST_F(CoordinatorTest, PassesOnWhatIsAskedOfCalls) {
  all_join();
  say(0, CallQuestion{.id = 5, .asker = 3, .uid = 7, .sequence = 4, .asked = {1, 0, 99}});
  EXPECT_THAT(
      take<CallQuestion>(),
      ElementsAre(std::pair(1, CallQuestion{.id = 5, .asker = 0, .uid = 7, .sequence = 4})));
  say(1, CallAnswer{5, 0, {.rank = 3, .joins = 2, .calls = {1, 2}}});
  EXPECT_THAT(
      take<CallAnswer>(),
      ElementsAre(std::pair(0, CallAnswer{5, 0, {.rank = 1, .joins = 2, .calls = {1, 2}}})));
  say(1, CallAnswer{5, 99, {}});
  EXPECT_THAT(letters, IsEmpty());
}

TEST_F(CoordinatorTest, DifferentCallsAbortTheGroup) {
  all_join();
  say(0, EnteredCall{7, 12, 1, "all_reduce of 4"});
  say(1, EnteredCall{7, 12, 1, "all_reduce of 4"});
  say(1, EnteredCall{7, 13, 2, "barrier"});
  say(2, EnteredCall{8, 12, 2, "barrier"});
  EXPECT_THAT(letters, IsEmpty()) << "other calls, and other groups, are none of its business";
  say(3, EnteredCall{7, 12, 2, "barrier"});
  const auto aborts = take<AbortGroup>();
  ASSERT_EQ(aborts.size(), 4u) << "those who differ hear of it, too";
  EXPECT_EQ(aborts[0].second.uid, 7u);
  EXPECT_EQ(aborts[0].second.reason,
            "ranks make different calls: #12 is all_reduce of 4 on rank 0, but barrier on rank 3");
  say(2, EnteredCall{7, 12, 3, "reduce"});
  EXPECT_THAT(letters, IsEmpty());
}

/// Whether this note is still known: another one is found to differ from it.
bool is_kept(Coordinator& coordinator, const EnteredCall& note, TimePoint now, bool& aborted) {
  aborted = false;
  EnteredCall other = note;
  other.signature = note.signature + 1;
  coordinator.receive(1, other, now);
  return aborted;
}

TEST(CoordinatorMemory, NotesOfCallsAreForgotten) {
  bool aborted = false;
  Coordinator coordinator(2, {}, [&](int, const Message& message) {
    if (std::holds_alternative<AbortGroup>(message)) aborted = true;
  });
  const TimePoint now = TimePoint() + 1h;
  coordinator.join(0, now);
  coordinator.join(1, now);
  constexpr std::uint64_t calls = 20'000;
  for (std::uint64_t i = 1; i <= calls; ++i)
    coordinator.receive(0, EnteredCall{7, i, 1, "barrier"}, now);
  EXPECT_FALSE(is_kept(coordinator, {7, 1, 1, "barrier"}, now, aborted));
  EXPECT_TRUE(is_kept(coordinator, {7, calls, 1, "barrier"}, now, aborted));
}

TEST(CoordinatorMemory, NotesOfOldGroupsAreForgotten) {
  bool aborted = false;
  Coordinator coordinator(2, {}, [&](int, const Message& message) {
    if (std::holds_alternative<AbortGroup>(message)) aborted = true;
  });
  const TimePoint now = TimePoint() + 1h;
  coordinator.join(0, now);
  coordinator.join(1, now);
  constexpr std::uint64_t groups = 50'000;
  for (std::uint64_t uid = 1; uid <= groups; ++uid)
    coordinator.receive(0, EnteredCall{uid, 1, 1, "barrier"}, now);
  EXPECT_FALSE(is_kept(coordinator, {1, 1, 1, "barrier"}, now, aborted));
  EXPECT_TRUE(is_kept(coordinator, {groups, 1, 1, "barrier"}, now, aborted));
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
