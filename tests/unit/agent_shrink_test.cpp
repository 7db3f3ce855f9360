// A rank's own side of the control plane: what members settle by their coordinator, and what the
// next coordinator is told.
#include <thread>

#include "tests/unit/agent_scene.hpp"

namespace hymn::test {
namespace {

using namespace control;
using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class AgentShrink : public AgentScene {};

TEST_F(AgentShrink, ShrinksWithTheVerdictOfTheCoordinator) {
  const ShrinkVerdict verdict{7, 1000, {0, 1}};
  coordinator = [&](const Message& message) {
    EXPECT_EQ(message, Message(ShrinkCall{7, {0, 1, 2}}));
    agent.receive(ShrinkVerdict{8, 1001, {3}});
    agent.receive(verdict);
  };
  const std::vector<int> members = {0, 1, 2};
  EXPECT_EQ(agent.shrink(7, members, patience()), verdict);
  // What was settled once does not count for the next time.
  const ShrinkVerdict second{7, 1002, {1}};
  coordinator = [&](const Message&) { agent.receive(second); };
  EXPECT_EQ(agent.shrink(7, members, patience()), second);
}

TEST_F(AgentShrink, ShrinkEndsWithItsDeadline) {
  clock.set_step(1s);
  const std::vector<int> members = {0, 1, 2};
  EXPECT_EQ(agent.shrink(7, members, patience(Deadline(clock.now() + 2s))), std::nullopt);
  take_sent();
  agent.reached_coordinator(0);
  EXPECT_THAT(take_sent(), IsEmpty()) << "nobody calls any more";
}

TEST_F(AgentShrink, RemembersOfSomeGroupsAloneThatItHasNotShrunkThem) {
  const std::vector<int> members = {0, 1, 2};
  for (std::uint64_t uid = 0; uid <= most_remembered; ++uid)
    EXPECT_EQ(agent.shrink(uid, members, patience(Deadline(clock.now()))), std::nullopt);
  EXPECT_FALSE(agent.is_shrinking(0));
  EXPECT_TRUE(agent.is_shrinking(1));
  EXPECT_TRUE(agent.is_shrinking(most_remembered));
}

TEST_F(AgentShrink, ConfirmsWhatAllHaveMade) {
  const ShrinkVerdict verdict{confirmation_of(1000), 1001, {0, 1, 2}};
  coordinator = [&](const Message& message) {
    EXPECT_EQ(message, Message(ShrinkCall{confirmation_of(1000), {0, 1, 2}}));
    agent.receive(verdict);
  };
  const std::vector<int> members = {0, 1, 2};
  EXPECT_EQ(agent.confirm(1000, members, patience()), verdict);
}

TEST_F(AgentShrink, ConfirmsNothingThatIsGivenUp) {
  coordinator = [&](const Message& message) {
    if (message == Message(ShrinkCall{confirmation_of(1000), {0, 1, 2}}))
      agent.receive(AbortGroup{1000, "lost"});
  };
  const std::vector<int> members = {0, 1, 2};
  EXPECT_EQ(agent.confirm(1000, members, patience()), std::nullopt);
  // It does not wait any more.
  EXPECT_THAT(take_sent(), Contains(Message(ShrinkCall{.uid = confirmation_of(1000)})));
  // Nor later, when that is known.
  EXPECT_EQ(agent.confirm(1000, members, patience()), std::nullopt);
}

TEST_F(AgentShrink, TellsTheNextCoordinatorWhatItKnows) {
  hear(0, PeerState::dead, "killed", {{7, 1, 1}});
  hear(2, PeerState::stalled);
  hear(3, PeerState::left);
  agent.receive(AbortGroup{7, "heard"});
  agent.post(AbortGroup{8, "said"});
  agent.post(DumpNow{"once"});
  agent.receive(ShrinkVerdict{9, 1000, {1}});
  bool first = true;
  std::jthread connection;
  coordinator = [&](const Message& message) {
    if (!std::holds_alternative<ShrinkCall>(message)) return;
    // The coordinator is lost, and the next one answers.
    if (std::exchange(first, false)) {
      take_sent();
      connection = std::jthread([this] { agent.reached_coordinator(0); });
    } else {
      agent.receive(ShrinkVerdict{10, 1001, {1, 2}});
    }
  };
  const std::vector<int> members = {0, 1, 2};
  ASSERT_TRUE(agent.shrink(10, members, patience()));
  EXPECT_THAT(
      take_sent(),
      UnorderedElementsAre(
          Message(News{
              {.rank = 0, .state = PeerState::dead, .detail = "killed", .marks = {{7, 1, 1}}}}),
          Message(News{{.rank = 2, .state = PeerState::stalled}}),
          Message(News{{.rank = 3, .state = PeerState::left}}), Message(AbortGroup{7, "heard"}),
          Message(AbortGroup{8, "said"}), Message(ShrinkVerdict{9, 1000, {1}}),
          Message(ShrinkCall{10, {0, 1, 2}})));
}

TEST_F(AgentShrink, TheCoordinatorHearsOfTheGoneBeforeTheVerdicts) {
  hear(0, PeerState::dead);
  agent.receive(ShrinkVerdict{9, 1000, {0, 1}});
  take_sent();
  agent.reached_coordinator(0);
  EXPECT_THAT(take_sent(), ElementsAre(Message(News{{.rank = 0, .state = PeerState::dead}}),
                                       Message(ShrinkVerdict{9, 1000, {0, 1}})));
}

// The coordinator is told that this rank has not made the group of it, nor will; and so is the next
// one, which others may tell of it.
TEST_F(AgentShrink, AVerdictThatIsRejectedIsVoid) {
  const ShrinkVerdict verdict{9, 1000, {0, 1}};
  coordinator = [&](const Message& message) {
    if (message == Message(ShrinkCall{9, {0, 1}})) agent.receive(verdict);
  };
  const std::vector<int> members = {0, 1};
  ASSERT_EQ(agent.shrink(9, members, patience()), verdict);
  take_sent();
  agent.reject_verdict(verdict);
  const Message rejection = ShrinkCall{.uid = 9, .void_uid = 1000};
  EXPECT_THAT(take_sent(), ElementsAre(rejection));
  // It comes again from a coordinator that was asked before.
  agent.receive(verdict);
  agent.reached_coordinator(0);
  EXPECT_THAT(take_sent(), ElementsAre(rejection));
  clock.set_step(1s);
  EXPECT_EQ(agent.shrink(9, members, patience(Deadline(clock.now() + 2s))), std::nullopt);
}

// Of a group that has come from a shrink, and is shrunk again.
TEST_F(AgentShrink, WhatWasConfirmedIsNoVerdictOnTheNextShrink) {
  const std::vector<int> members = {0, 1, 2};
  coordinator = [&](const Message& message) {
    const auto* call = std::get_if<ShrinkCall>(&message);
    if (call != nullptr && call->uid == confirmation_of(1000))
      agent.receive(ShrinkVerdict{call->uid, 1001, call->members});
  };
  ASSERT_TRUE(agent.confirm(1000, members, patience()));
  clock.set_step(1s);
  EXPECT_EQ(agent.shrink(1000, members, patience(Deadline(clock.now() + 2s))), std::nullopt);
  take_sent();
  agent.reached_coordinator(0);
  EXPECT_THAT(take_sent(),
              ElementsAre(Message(ShrinkVerdict{confirmation_of(1000), 1001, {0, 1, 2}})));
}

// Those who ran coordinators are gone: nobody would answer.
TEST_F(AgentShrink, TheLastOneSettlesAlone) {
  for (const int rank : {0, 2}) agent.sight({.rank = rank, .state = PeerState::dead});
  const std::vector<int> members = {0, 1, 2, 3};
  coordinator = [&](const Message& message) {
    if (std::holds_alternative<ShrinkCall>(message))
      agent.receive(News{{.rank = 3, .state = PeerState::left}});
  };
  const auto verdict = agent.shrink(7, members, patience());
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->survivors, std::vector{1});
  EXPECT_EQ(verdict->new_uid, first_lone_uid + lone_uids_of_rank);
  EXPECT_FALSE(agent.is_shrinking(7));
  // What it has made of that, all have who are left.
  EXPECT_EQ(agent.confirm(verdict->new_uid, verdict->survivors, patience())->survivors,
            verdict->survivors);
  EXPECT_NE(agent.shrink(8, members, patience())->new_uid, verdict->new_uid);
}

// Several ranks may have a group of their own each, and shrink it again: a coordinator would take
// those for one group if they had one number.
TEST_F(AgentShrink, GroupsOfOneAreTheAffairOfNobodyElse) {
  Agent other{2, 4, ears, [](const Message&) { ADD_FAILURE() << "a coordinator is asked"; }};
  const auto own = agent.shrink(7, std::vector{1}, patience());
  const auto others = other.shrink(7, std::vector{2}, patience());
  ASSERT_TRUE(own && others);
  EXPECT_EQ(own->survivors, std::vector{1});
  EXPECT_EQ(others->survivors, std::vector{2});
  EXPECT_NE(own->new_uid, others->new_uid);
  EXPECT_THAT(take_sent(), IsEmpty());
}

// Who is lost may come again, for as long as there is a coordinator to come to.
TEST_F(AgentShrink, WhoIsLostIsWaitedForWhileThereIsACoordinator) {
  for (const int rank : {0, 2, 3}) agent.sight({.rank = rank, .state = PeerState::lost});
  const std::vector<int> members = {0, 1, 2, 3};
  clock.set_step(1s);
  EXPECT_EQ(agent.shrink(7, members, patience(Deadline(clock.now() + 2s))), std::nullopt);
  agent.lost_all_coordinators();
  const auto verdict = agent.shrink(7, members, patience());
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->survivors, std::vector{1});
}

}  // namespace
}  // namespace hymn::test
