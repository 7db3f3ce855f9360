// A rank's own side of the control plane: what it asks of others, and answers.
#include "tests/unit/agent_scene.hpp"

namespace hymn::test {
namespace {

using namespace control;
using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class AgentQuestions : public AgentScene {};

TEST_F(AgentQuestions, Answers) {
  agent.receive(Question{.id = 5, .asker = 3, .about = 7});
  EXPECT_THAT(take_sent_of<Answer>(),
              ElementsAre(Answer{5, 3, {.rank = 1, .entered = 8, .doing = "me"}}));
}

TEST_F(AgentQuestions, AsksThoseWhoAreThere) {
  hear(3, PeerState::left, "it has ended its world", {{7, 9, 8}});
  Question question;
  coordinator = [&](const Message& message) {
    question = std::get<Question>(message);
    agent.receive(Answer{question.id + 1, 1, {.rank = 0, .doing = "to another question"}});
    agent.receive(Answer{question.id, 1, {.rank = 2, .entered = 4, .doing = "two"}});
    agent.receive(Answer{question.id, 1, {.rank = 0, .entered = 5, .doing = "null"}});
  };
  const std::vector<int> ranks = {2, 3, 1, 0};
  const auto reports = agent.ask(7, ranks, 1h);
  EXPECT_EQ(question.about, Inquiry(7));
  EXPECT_THAT(question.asked, ElementsAre(2, 0)) << "neither itself nor who is gone";
  ASSERT_EQ(reports.size(), 4u);
  EXPECT_EQ(reports[0],
            (ProgressReport{.rank = 2, .entered = 4, .doing = "two", .answered = true}));
  EXPECT_EQ(reports[1], (ProgressReport{.rank = 3,
                                        .state = PeerState::left,
                                        .entered = 9,
                                        .completed = 8,
                                        .doing = "it has ended its world"}));
  EXPECT_EQ(reports[2], (ProgressReport{.rank = 1, .entered = 8, .doing = "me", .answered = true}));
  EXPECT_EQ(reports[3],
            (ProgressReport{.rank = 0, .entered = 5, .doing = "null", .answered = true}));
}

TEST_F(AgentQuestions, EachQuestionHasItsOwnNumber) {
  const std::vector<int> ranks = {0};
  agent.ask(7, ranks, 0s);
  agent.ask(7, ranks, 0s);
  const auto questions = take_sent_of<Question>();
  ASSERT_EQ(questions.size(), 2u);
  EXPECT_NE(questions[0].id, questions[1].id);
}

TEST_F(AgentQuestions, NobodyIsAskedWhereNobodyIsThere) {
  hear(0, PeerState::dead);
  const std::vector<int> ranks = {0, 1};
  EXPECT_THAT(agent.ask(7, ranks, 1h), SizeIs(2));
  EXPECT_THAT(take_sent(), IsEmpty());
}

TEST_F(AgentQuestions, DoesNotWaitLongerThanTheLimit) {
  coordinator = [&](const Message& message) {
    const auto& question = std::get<Question>(message);
    // The same answer twice is one.
    agent.receive(Answer{question.id, 1, {.rank = 2, .entered = 4}});
    agent.receive(Answer{question.id, 1, {.rank = 2, .entered = 5}});
  };
  const std::vector<int> ranks = {0, 2};
  const auto reports = agent.ask(7, ranks, 1ms);
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(
      reports[0],
      (ProgressReport{.rank = 0, .state = PeerState::stalled, .doing = "it does not answer"}));
  EXPECT_EQ(reports[1].entered, 4u);
}

TEST_F(AgentQuestions, WhoIsAskedThroughOneThatDoesNotAnswerIsCutOff) {
  agent.reached_coordinator(3);
  take_sent();
  const std::vector<int> ranks = {0, 1, 3};
  auto reports = agent.ask(7, ranks, 1ms);
  EXPECT_TRUE(reports[0].cut_off);
  EXPECT_FALSE(reports[1].cut_off) << "this rank";
  EXPECT_FALSE(reports[2].cut_off) << "who passes questions on";
  // Also where that one is not of the group.
  const std::vector<int> others = {0};
  EXPECT_TRUE(agent.ask(7, others, 1ms)[0].cut_off);
  EXPECT_THAT(take_sent_of<Question>().back().asked, ElementsAre(0, 3));
  coordinator = [&](const Message& message) {
    agent.receive(Answer{std::get<Question>(message).id, 1, {.rank = 3}});
  };
  reports = agent.ask(7, ranks, 1ms);
  EXPECT_FALSE(reports[0].cut_off) << "it could have answered";
  coordinator = [](const Message&) {};
  hear(3, PeerState::dead);
  EXPECT_FALSE(agent.ask(7, others, 1ms)[0].cut_off) << "there is another coordinator, or none";
}

TEST_F(AgentQuestions, WhatACoordinatorThatLeavesHasNotPassedOnTheNextOneIsAsked) {
  agent.reached_coordinator(3);
  take_sent();
  std::vector<Question> questions;
  coordinator = [&](const Message& message) {
    const auto* question = std::get_if<Question>(&message);
    if (question == nullptr) return;
    questions.push_back(*question);
    if (questions.size() == 2) {
      agent.receive(Answer{question->id, 1, {.rank = 0, .doing = "null"}});
    } else {
      hear(3, PeerState::left);
      agent.reached_coordinator(2);
    }
  };
  const std::vector<int> ranks = {0, 3};
  const auto reports = agent.ask(7, ranks, 1ms);
  EXPECT_TRUE(reports[0].answered) << reports[0].doing;
  ASSERT_THAT(questions, SizeIs(2));
  EXPECT_EQ(questions[0], questions[1]);
}

TEST_F(AgentQuestions, WhoDiesIsNotWaitedFor) {
  coordinator = [&](const Message&) { hear(0, PeerState::dead, "killed", {{7, 3, 2}}); };
  const std::vector<int> ranks = {0};
  const auto reports = agent.ask(7, ranks, 1h);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(
      reports[0],
      (ProgressReport{
          .rank = 0, .state = PeerState::dead, .entered = 3, .completed = 2, .doing = "killed"}));
}

TEST_F(AgentQuestions, TellsWhatItHasCalled) {
  agent.receive(CallQuestion{.id = 5, .asker = 3, .uid = 7, .sequence = 4});
  EXPECT_THAT(take_sent_of<CallAnswer>(),
              ElementsAre(CallAnswer{5, 3, {.rank = 1, .knows_group = true, .calls = {7, 4}}}));
}

TEST_F(AgentQuestions, AsksForCallsAndDoesNotWait) {
  const std::vector<int> ranks = {0, 2};
  const std::uint64_t question = agent.ask_for_calls(7, 4, ranks);
  EXPECT_THAT(take_sent_of<CallQuestion>(), ElementsAre(CallQuestion{question, 1, 7, 4, {0, 2}}));
  EXPECT_THAT(agent.take_calls(question), IsEmpty());
  const CallProgress report{.rank = 2, .knows_group = true, .calls = {1}};
  agent.receive(CallAnswer{question + 1, 1, {.rank = 0}});
  agent.receive(CallAnswer{question, 1, report});
  EXPECT_THAT(agent.take_calls(question), ElementsAre(report));
  EXPECT_THAT(agent.take_calls(question), IsEmpty()) << "each is told once";
  agent.forget_calls(question);
  agent.receive(CallAnswer{question, 1, report});
  EXPECT_THAT(agent.take_calls(question), IsEmpty());
}

}  // namespace
}  // namespace hymn::test
