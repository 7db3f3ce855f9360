// A rank's own side of the control plane: what members settle by their desk, and what the next desk
// is told.
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

TEST_F(AgentShrink, ShrinksWithTheVerdictOfTheDesk) {
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

TEST_F(AgentShrink, ShrinkEndsWithItsDeadline) {
  clock.set_step(1s);
  const std::vector<int> members = {0, 1, 2};
  EXPECT_EQ(agent.shrink(7, members, Deadline(clock.now() + 2s), clock), std::nullopt);
  take_sent();
  agent.reached_desk(0);
  EXPECT_THAT(take_sent(), IsEmpty()) << "nobody calls any more";
}

TEST_F(AgentShrink, ConfirmsWhatAllHaveMade) {
  const ShrinkVerdict verdict{1000, 1001, {0, 1, 2}};
  desk = [&](const Message& message) {
    EXPECT_EQ(message, Message(ShrinkCall{1000, {0, 1, 2}}));
    agent.receive(verdict);
  };
  const std::vector<int> members = {0, 1, 2};
  EXPECT_EQ(agent.confirm(1000, members, Deadline::never(), clock), verdict);
}

TEST_F(AgentShrink, ConfirmsNothingThatIsGivenUp) {
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

TEST_F(AgentShrink, TellsTheNextDeskWhatItKnows) {
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

TEST_F(AgentShrink, TheDeskHearsOfTheGoneBeforeTheVerdicts) {
  hear(0, PeerState::dead);
  agent.receive(ShrinkVerdict{9, 1000, {0, 1}});
  take_sent();
  agent.reached_desk(0);
  EXPECT_THAT(take_sent(), ElementsAre(Message(News{{.rank = 0, .state = PeerState::dead}}),
                                       Message(ShrinkVerdict{9, 1000, {0, 1}})));
}

}  // namespace
}  // namespace hymn::test
