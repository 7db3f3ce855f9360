// A rank's own side of the control plane: what it believes, asks and tells, with a desk that is
// made up by the test.
#include "control/agent.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <thread>

#include "tests/unit/fake_clock.hpp"

namespace hymn::test {
namespace {

using namespace control;
using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

/// What a world hears, one line each.
class Ears : public Listener {
 public:
  void peer_changed(const PeerNews& news) override {
    heard.push_back(std::to_string(news.rank) + " is " + std::string(to_string(news.state)));
  }
  void group_aborted(const AbortGroup& message) override {
    heard.push_back("abort of " + std::to_string(message.uid) + ": " + message.reason);
  }
  void dump_asked(const DumpNow& message) override { heard.push_back("dump: " + message.reason); }
  Tale tell(std::uint64_t uid) override { return {.rank = 99, .entered = uid + 1, .doing = "me"}; }
  CallTale tell_calls(std::uint64_t uid, std::uint64_t sequence) override {
    return {.rank = 99, .knows_group = true, .calls = {uid, sequence}};
  }
  std::vector<GroupMark> marks() override { return {}; }

  std::vector<std::string> take() { return std::exchange(heard, {}); }
  std::vector<std::string> heard;
};

/// The agent of rank 1 of 4.
class AgentTest : public ::testing::Test {
 protected:
  void hear(int rank, PeerState state, std::string detail = "", std::vector<GroupMark> marks = {}) {
    agent.receive(News{{rank, state, std::move(detail), std::move(marks)}});
  }
  PeerState state_of(int rank) const { return agent.news_of(rank).state; }
  std::vector<Message> take_sent() {
    std::lock_guard lock(mutex);
    return std::exchange(sent, {});
  }
  template <class Kind>
  std::vector<Kind> take_sent_of() {
    std::vector<Kind> found;
    for (const Message& message : take_sent())
      if (const Kind* kind = std::get_if<Kind>(&message)) found.push_back(*kind);
    return found;
  }

  Ears ears;
  std::mutex mutex;
  std::vector<Message> sent;
  std::function<void(const Message&)> desk = [](const Message&) {};
  Agent agent{1, 4, ears, [this](const Message& message) {
                {
                  std::lock_guard lock(mutex);
                  sent.push_back(message);
                }
                desk(message);
              }};
  FakeClock clock;
};

TEST_F(AgentTest, TellsWhatItHearsOnce) {
  hear(2, PeerState::stalled);
  hear(2, PeerState::stalled);
  hear(2, PeerState::alive);
  hear(2, PeerState::alive);
  hear(2, PeerState::lost, "the cable");
  hear(2, PeerState::stalled);
  EXPECT_THAT(ears.take(), ElementsAre("2 is stalled", "2 is alive", "2 is lost"));
  EXPECT_EQ(agent.news_of(2).detail, "the cable");
  EXPECT_THAT(agent.all_news(), SizeIs(1));
  EXPECT_THAT(take_sent(), IsEmpty()) << "the desk knows what it has said";
}

TEST_F(AgentTest, LostMayComeBackOrDie) {
  hear(2, PeerState::lost);
  hear(2, PeerState::alive);
  EXPECT_EQ(state_of(2), PeerState::alive);
  hear(2, PeerState::lost);
  hear(2, PeerState::dead);
  hear(2, PeerState::alive);
  hear(2, PeerState::left);
  EXPECT_EQ(state_of(2), PeerState::dead);
  EXPECT_THAT(ears.take(), ElementsAre("2 is lost", "2 is alive", "2 is lost", "2 is dead"));
}

TEST_F(AgentTest, LeftIsFinal) {
  hear(2, PeerState::left);
  for (const auto state :
       {PeerState::alive, PeerState::stalled, PeerState::lost, PeerState::dead}) {
    hear(2, state);
    agent.sight({.rank = 2, .state = state});
  }
  EXPECT_EQ(state_of(2), PeerState::left);
  EXPECT_THAT(ears.take(), ElementsAre("2 is left"));
  EXPECT_THAT(take_sent(), IsEmpty());
}

TEST_F(AgentTest, LastWordsMayComeAfterTheEndWasSeen) {
  agent.sight({.rank = 2, .state = PeerState::left});
  agent.receive(News{{.rank = 2, .state = PeerState::left, .detail = "why", .culprits = {3}}});
  EXPECT_THAT(agent.news_of(2).culprits, ElementsAre(3));
  EXPECT_EQ(agent.news_of(2).detail, "why");
  EXPECT_THAT(ears.take(), ElementsAre("2 is left", "2 is left"));
}

TEST_F(AgentTest, OfThoseInSightTheDeskIsNotBelieved) {
  agent.set_in_sight({2});
  hear(2, PeerState::lost);
  hear(3, PeerState::lost);
  EXPECT_THAT(ears.take(), ElementsAre("3 is lost"));
  hear(2, PeerState::stalled);
  EXPECT_EQ(state_of(2), PeerState::stalled) << "a stall can only be heard of";
  agent.sight({.rank = 2, .state = PeerState::lost});
  EXPECT_EQ(state_of(2), PeerState::lost) << "own eyes";
  hear(2, PeerState::dead);
  EXPECT_EQ(state_of(2), PeerState::dead) << "whoever says dead has seen it";
}

TEST_F(AgentTest, WhatItSeesIsTold) {
  const PeerNews news{
      .rank = 2, .state = PeerState::dead, .detail = "killed", .marks = {{7, 1, 1}}};
  agent.sight(news);
  EXPECT_THAT(ears.take(), ElementsAre("2 is dead"));
  EXPECT_THAT(take_sent_of<News>(), ElementsAre(News{news}));
  agent.sight(news);
  EXPECT_THAT(take_sent(), IsEmpty());
}

TEST_F(AgentTest, NothingIsLearntOfItselfOrOfNobody) {
  for (const int rank : {1, -1, 4}) {
    hear(rank, PeerState::dead);
    agent.sight({.rank = rank, .state = PeerState::lost});
  }
  EXPECT_THAT(ears.take(), IsEmpty());
  EXPECT_THAT(take_sent(), IsEmpty());
  EXPECT_THAT(agent.all_news(), IsEmpty());
}

TEST_F(AgentTest, MarksOutlastNewsWithoutAny) {
  hear(2, PeerState::lost, "", {{7, 3, 2}});
  hear(2, PeerState::dead);
  EXPECT_THAT(agent.news_of(2).marks, ElementsAre(GroupMark{7, 3, 2}));
}

TEST_F(AgentTest, PassesOrdersOn) {
  agent.receive(AbortGroup{7, "why"});
  agent.receive(DumpNow{"asked"});
  for (Message message : {Message(Beat{}), Message(Goodbye{}), Message(CallNote{}),
                          Message(ShrinkCall{}), Message(Moved{})})
    agent.receive(message);
  EXPECT_THAT(ears.take(), ElementsAre("abort of 7: why", "dump: asked"));
}

// Each desk says again what it knows to those who come to it.
TEST_F(AgentTest, AnAbortIsHeardOnce) {
  agent.receive(AbortGroup{7, "why"});
  agent.receive(AbortGroup{7, "why"});
  EXPECT_THAT(ears.take(), ElementsAre("abort of 7: why"));
}

TEST_F(AgentTest, Answers) {
  agent.receive(Question{.id = 5, .asker = 3, .uid = 7});
  EXPECT_THAT(take_sent_of<Answer>(),
              ElementsAre(Answer{5, 3, {.rank = 1, .entered = 8, .doing = "me"}}));
}

TEST_F(AgentTest, AsksThoseWhoAreThere) {
  hear(3, PeerState::left, "it has ended its world", {{7, 9, 8}});
  Question question;
  desk = [&](const Message& message) {
    question = std::get<Question>(message);
    agent.receive(Answer{question.id + 1, 1, {.rank = 0, .doing = "to another question"}});
    agent.receive(Answer{question.id, 1, {.rank = 2, .entered = 4, .doing = "two"}});
    agent.receive(Answer{question.id, 1, {.rank = 0, .entered = 5, .doing = "null"}});
  };
  const std::vector<int> ranks = {2, 3, 1, 0};
  const auto tales = agent.ask(7, ranks, 1h);
  EXPECT_EQ(question.uid, 7u);
  EXPECT_THAT(question.asked, ElementsAre(2, 0)) << "neither itself nor who is gone";
  ASSERT_EQ(tales.size(), 4u);
  EXPECT_EQ(tales[0], (Tale{.rank = 2, .entered = 4, .doing = "two", .answered = true}));
  EXPECT_EQ(tales[1], (Tale{.rank = 3,
                            .state = PeerState::left,
                            .entered = 9,
                            .completed = 8,
                            .doing = "it has ended its world"}));
  EXPECT_EQ(tales[2], (Tale{.rank = 1, .entered = 8, .doing = "me", .answered = true}));
  EXPECT_EQ(tales[3], (Tale{.rank = 0, .entered = 5, .doing = "null", .answered = true}));
}

TEST_F(AgentTest, EachQuestionHasItsOwnNumber) {
  const std::vector<int> ranks = {0};
  agent.ask(7, ranks, 0s);
  agent.ask(7, ranks, 0s);
  const auto questions = take_sent_of<Question>();
  ASSERT_EQ(questions.size(), 2u);
  EXPECT_NE(questions[0].id, questions[1].id);
}

TEST_F(AgentTest, NobodyIsAskedWhereNobodyIsThere) {
  hear(0, PeerState::dead);
  const std::vector<int> ranks = {0, 1};
  EXPECT_THAT(agent.ask(7, ranks, 1h), SizeIs(2));
  EXPECT_THAT(take_sent(), IsEmpty());
}

TEST_F(AgentTest, DoesNotWaitLongerThanTheLimit) {
  desk = [&](const Message& message) {
    const auto& question = std::get<Question>(message);
    // The same answer twice is one.
    agent.receive(Answer{question.id, 1, {.rank = 2, .entered = 4}});
    agent.receive(Answer{question.id, 1, {.rank = 2, .entered = 5}});
  };
  const std::vector<int> ranks = {0, 2};
  const auto tales = agent.ask(7, ranks, 1ms);
  ASSERT_EQ(tales.size(), 2u);
  EXPECT_EQ(tales[0],
            (Tale{.rank = 0, .state = PeerState::stalled, .doing = "it does not answer"}));
  EXPECT_EQ(tales[1].entered, 4u);
}

TEST_F(AgentTest, WhoIsAskedThroughOneThatDoesNotAnswerIsCutOff) {
  agent.reached_desk(3);
  take_sent();
  const std::vector<int> ranks = {0, 1, 3};
  auto tales = agent.ask(7, ranks, 1ms);
  EXPECT_TRUE(tales[0].cut_off);
  EXPECT_FALSE(tales[1].cut_off) << "this rank";
  EXPECT_FALSE(tales[2].cut_off) << "who passes questions on";
  // Also where that one is not of the group.
  const std::vector<int> others = {0};
  EXPECT_TRUE(agent.ask(7, others, 1ms)[0].cut_off);
  EXPECT_THAT(take_sent_of<Question>().back().asked, ElementsAre(0, 3));
  desk = [&](const Message& message) {
    agent.receive(Answer{std::get<Question>(message).id, 1, {.rank = 3}});
  };
  tales = agent.ask(7, ranks, 1ms);
  EXPECT_FALSE(tales[0].cut_off) << "it could have answered";
  desk = [](const Message&) {};
  hear(3, PeerState::dead);
  EXPECT_FALSE(agent.ask(7, others, 1ms)[0].cut_off) << "there is another desk, or none";
}

TEST_F(AgentTest, WhoDiesIsNotWaitedFor) {
  desk = [&](const Message&) { hear(0, PeerState::dead, "killed", {{7, 3, 2}}); };
  const std::vector<int> ranks = {0};
  const auto tales = agent.ask(7, ranks, 1h);
  ASSERT_EQ(tales.size(), 1u);
  EXPECT_EQ(
      tales[0],
      (Tale{.rank = 0, .state = PeerState::dead, .entered = 3, .completed = 2, .doing = "killed"}));
}

TEST_F(AgentTest, TellsWhatItHasCalled) {
  agent.receive(CallQuestion{.id = 5, .asker = 3, .uid = 7, .sequence = 4});
  EXPECT_THAT(take_sent_of<CallAnswer>(),
              ElementsAre(CallAnswer{5, 3, {.rank = 1, .knows_group = true, .calls = {7, 4}}}));
}

TEST_F(AgentTest, AsksForCallsAndDoesNotWait) {
  const std::vector<int> ranks = {0, 2};
  const std::uint64_t question = agent.ask_for_calls(7, 4, ranks);
  EXPECT_THAT(take_sent_of<CallQuestion>(), ElementsAre(CallQuestion{question, 1, 7, 4, {0, 2}}));
  EXPECT_THAT(agent.take_calls(question), IsEmpty());
  const CallTale tale{.rank = 2, .knows_group = true, .calls = {1}};
  agent.receive(CallAnswer{question + 1, 1, {.rank = 0}});
  agent.receive(CallAnswer{question, 1, tale});
  EXPECT_THAT(agent.take_calls(question), ElementsAre(tale));
  EXPECT_THAT(agent.take_calls(question), IsEmpty()) << "each is told once";
  agent.forget_calls(question);
  agent.receive(CallAnswer{question, 1, tale});
  EXPECT_THAT(agent.take_calls(question), IsEmpty());
}

TEST_F(AgentTest, ShrinksWithTheVerdictOfTheDesk) {
  const ShrinkVerdict verdict{7, 1000, {0, 1}};
  desk = [&](const Message& message) {
    EXPECT_EQ(message, Message(ShrinkCall{7, {0, 1, 2}}));
    agent.receive(ShrinkVerdict{8, 1001, {3}});
    agent.receive(verdict);
  };
  const std::vector<int> members = {0, 1, 2};
  EXPECT_EQ(agent.shrink(7, members, Deadline::never(), clock), verdict);
  // What was settled once does not count for the next time.
  const ShrinkVerdict second{7, 1002, {1}};
  desk = [&](const Message&) { agent.receive(second); };
  EXPECT_EQ(agent.shrink(7, members, Deadline::never(), clock), second);
}

TEST_F(AgentTest, ShrinkEndsWithItsDeadline) {
  clock.set_step(1s);
  const std::vector<int> members = {0, 1, 2};
  EXPECT_EQ(agent.shrink(7, members, Deadline(clock.now() + 2s), clock), std::nullopt);
  take_sent();
  agent.reached_desk(0);
  EXPECT_THAT(take_sent(), IsEmpty()) << "nobody calls any more";
}

TEST_F(AgentTest, ConfirmsWhatAllHaveMade) {
  const ShrinkVerdict verdict{1000, 1001, {0, 1, 2}};
  desk = [&](const Message& message) {
    EXPECT_EQ(message, Message(ShrinkCall{1000, {0, 1, 2}}));
    agent.receive(verdict);
  };
  const std::vector<int> members = {0, 1, 2};
  EXPECT_EQ(agent.confirm(1000, members, Deadline::never(), clock), verdict);
}

TEST_F(AgentTest, ConfirmsNothingThatIsGivenUp) {
  desk = [&](const Message& message) {
    if (message == Message(ShrinkCall{1000, {0, 1, 2}})) agent.receive(AbortGroup{1000, "lost"});
  };
  const std::vector<int> members = {0, 1, 2};
  EXPECT_EQ(agent.confirm(1000, members, Deadline::never(), clock), std::nullopt);
  // It does not wait any more.
  EXPECT_THAT(take_sent(), Contains(Message(ShrinkCall{.uid = 1000})));
  // Nor later, when that is known.
  EXPECT_EQ(agent.confirm(1000, members, Deadline::never(), clock), std::nullopt);
}

TEST_F(AgentTest, TellsTheNextDeskWhatItKnows) {
  hear(0, PeerState::dead, "killed", {{7, 1, 1}});
  hear(2, PeerState::stalled);
  hear(3, PeerState::left);
  agent.receive(AbortGroup{7, "heard"});
  agent.post(AbortGroup{8, "said"});
  agent.post(DumpNow{"once"});
  agent.receive(ShrinkVerdict{9, 1000, {1}});
  bool first = true;
  desk = [&](const Message& message) {
    if (!std::holds_alternative<ShrinkCall>(message)) return;
    // The desk is lost, and the next one answers.
    if (std::exchange(first, false)) {
      take_sent();
      agent.reached_desk(0);
    } else {
      agent.receive(ShrinkVerdict{10, 1001, {1, 2}});
    }
  };
  const std::vector<int> members = {0, 1, 2};
  ASSERT_TRUE(agent.shrink(10, members, Deadline::never(), clock));
  EXPECT_THAT(
      take_sent(),
      UnorderedElementsAre(
          Message(News{
              {.rank = 0, .state = PeerState::dead, .detail = "killed", .marks = {{7, 1, 1}}}}),
          Message(News{{.rank = 3, .state = PeerState::left}}), Message(AbortGroup{7, "heard"}),
          Message(AbortGroup{8, "said"}), Message(ShrinkVerdict{9, 1000, {1}}),
          Message(ShrinkCall{10, {0, 1, 2}})));
}

TEST_F(AgentTest, TheDeskHearsOfTheGoneBeforeTheVerdicts) {
  hear(0, PeerState::dead);
  agent.receive(ShrinkVerdict{9, 1000, {0, 1}});
  take_sent();
  agent.reached_desk(0);
  EXPECT_THAT(take_sent(), ElementsAre(Message(News{{.rank = 0, .state = PeerState::dead}}),
                                       Message(ShrinkVerdict{9, 1000, {0, 1}})));
}

TEST_F(AgentTest, AfterCloseTheListenerIsLeftAlone) {
  agent.close();
  hear(2, PeerState::dead);
  agent.receive(AbortGroup{7, "why"});
  agent.receive(DumpNow{"asked"});
  agent.receive(Question{.id = 5, .asker = 3, .uid = 7});
  agent.receive(CallQuestion{.id = 6, .asker = 3, .uid = 7});
  agent.sight({.rank = 3, .state = PeerState::dead});
  EXPECT_THAT(ears.take(), IsEmpty());
  EXPECT_EQ(state_of(2), PeerState::dead) << "it goes on learning";
  const auto sent_after = take_sent();
  for (const Message& message : sent_after) {
    EXPECT_FALSE(std::holds_alternative<Answer>(message)) << "what would carry it may be gone";
    EXPECT_FALSE(std::holds_alternative<CallAnswer>(message)) << "this, too";
  }
}

/// Stays in a call until it is let go.
class SlowEars : public Ears {
 public:
  void dump_asked(const DumpNow&) override {
    std::unique_lock lock(mutex);
    inside = true;
    changed.notify_all();
    changed.wait(lock, [this] { return may_go; });
    inside = false;
  }
  std::mutex mutex;
  std::condition_variable changed;
  bool inside = false;
  bool may_go = false;
};

TEST(AgentThreads, CloseWaitsForThoseWhoAreInACall) {
  auto ears = std::make_unique<SlowEars>();
  Agent agent(0, 2, *ears, [](const Message&) {});
  std::thread caller([&] { agent.receive(DumpNow{"asked"}); });
  {
    std::unique_lock lock(ears->mutex);
    ears->changed.wait(lock, [&] { return ears->inside; });
  }
  std::atomic<bool> closed{false};
  std::thread closer([&] {
    agent.close();
    closed = true;
  });
  // It cannot be proved that it waits; whoever does not is seen by chance.
  for (int i = 0; i < 100; ++i) std::this_thread::yield();
  EXPECT_FALSE(closed);
  {
    std::lock_guard lock(ears->mutex);
    ears->may_go = true;
    ears->changed.notify_all();
  }
  closer.join();
  EXPECT_FALSE(ears->inside);
  ears.reset();
  agent.receive(DumpNow{"again"});
  caller.join();
}

/// Writes what it is told without a lock, as only one thread may.
class NotingEars : public Ears {
 public:
  void peer_changed(const PeerNews&) override { ++calls; }
  std::atomic<int> calls{0};
};

TEST(AgentThreads, ManyMayHearSeeAndAskAtOnce) {
  constexpr int ranks = 64;
  NotingEars ears;
  std::atomic<Agent*> self{nullptr};
  Agent agent(0, ranks, ears, [&](const Message& message) {
    if (const auto* question = std::get_if<Question>(&message))
      for (const int asked : question->asked)
        self.load()->receive(Answer{question->id, 0, {.rank = asked, .entered = question->uid}});
  });
  self = &agent;
  std::atomic<int> answered{0};
  std::vector<std::thread> threads;
  for (int which = 0; which < 4; ++which)
    threads.emplace_back([&, which] {
      const std::vector<int> asked = {1, 2};
      for (int rank = 3; rank < ranks; ++rank) {
        if (which % 2 == 0)
          agent.receive(News{{.rank = rank, .state = PeerState::dead}});
        else
          agent.sight({.rank = rank, .state = PeerState::dead});
        for (const Tale& tale : agent.ask(static_cast<std::uint64_t>(which), asked, 1h))
          if (tale.entered == static_cast<std::uint64_t>(which)) ++answered;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ears.calls, ranks - 3) << "each is told once";
  EXPECT_EQ(answered, 4 * (ranks - 3) * 2);
  EXPECT_THAT(agent.all_news(), SizeIs(ranks - 3));
}

}  // namespace
}  // namespace hymn::test
