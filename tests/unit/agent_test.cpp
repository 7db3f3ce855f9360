// A rank's own side of the control plane: what it believes, and what it tells.
#include "tests/unit/agent_scene.hpp"

namespace hymn::test {
namespace {

using namespace control;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class AgentTest : public AgentScene {};

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
  EXPECT_THAT(take_sent(), IsEmpty()) << "the coordinator knows what it has said";
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

TEST_F(AgentTest, LastWordsTellHowFarItHadCome) {
  agent.sight({.rank = 2, .state = PeerState::left, .marks = {{7, 3, 2}, {9, 1, 1}}});
  agent.receive(News{{.rank = 2, .state = PeerState::left, .marks = {{5, 4, 4}, {7, 3, 3}}}});
  EXPECT_THAT(agent.news_of(2).marks,
              ElementsAre(GroupMark{5, 4, 4}, GroupMark{7, 3, 3}, GroupMark{9, 1, 1}));
  EXPECT_THAT(ears.take(), ElementsAre("2 is left", "2 is left"));
  agent.receive(News{{.rank = 2, .state = PeerState::left, .marks = {{7, 3, 1}}}});
  EXPECT_THAT(ears.take(), IsEmpty());
}

TEST_F(AgentTest, OfThoseInSightTheCoordinatorIsNotBelieved) {
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
  for (Message message : {Message(Beat{}), Message(Goodbye{}), Message(EnteredCall{}),
                          Message(ShrinkCall{}), Message(Moved{})})
    agent.receive(message);
  EXPECT_THAT(ears.take(), ElementsAre("abort of 7: why", "dump: asked"));
}

// Each coordinator says again what it knows to those who come to it.
TEST_F(AgentTest, AnAbortIsHeardOnce) {
  agent.receive(AbortGroup{7, "why"});
  agent.receive(AbortGroup{7, "why"});
  EXPECT_THAT(ears.take(), ElementsAre("abort of 7: why"));
}

TEST_F(AgentTest, AfterCloseTheListenerIsLeftAlone) {
  agent.close();
  hear(2, PeerState::dead);
  agent.receive(AbortGroup{7, "why"});
  agent.receive(DumpNow{"asked"});
  agent.receive(Question{.id = 5, .asker = 3, .about = 7});
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

}  // namespace
}  // namespace hymn::test
