// What a recorder's memory tells of the last call of its rank, and of whom it waits for.
#include "recorder/last_call.hpp"

#include <gtest/gtest.h>

#include <array>

#include "recorder/recorder_memory.hpp"

namespace hymn::test {
namespace {

class LastCall : public testing::Test {
 protected:
  std::uint64_t receive(bool waited_for) {
    CallRecord call;
    call.type = OpType::recv;
    call.peer = 2;
    call.waited_for = waited_for;
    return memory_.ring().record(call);
  }
  OwnWait awaited() const {
    const auto call = unended_call(memory_.view());
    return call ? awaited_in(memory_.view(), *call) : OwnWait();
  }
  std::string described() const {
    return describe_last_call(
        memory_.view(), {[](std::uint64_t uid) { return "g" + std::to_string(uid); }, nullptr});
  }

  RecorderMemory memory_{{.rank = 1, .world_size = 3, .ring = {.entries = 8}}};
};

// At a limit it is one of those that fail at about the same time, but was never kept by it.
TEST_F(LastCall, WhoTestedUntilItFailedWaitedForNobody) {
  memory_.ring().set_ended(receive(false), CallState::failed, true);
  EXPECT_EQ(awaited().ranks, "2");
  EXPECT_NE(awaited().ended, 0u);
  EXPECT_TRUE(awaited().tests);
}

TEST_F(LastCall, WhoWaitedUntilItFailedHasWaited) {
  memory_.ring().set_ended(receive(true), CallState::failed, true);
  EXPECT_EQ(awaited().ranks, "2");
  EXPECT_FALSE(awaited().tests);
  const std::uint64_t started = receive(false);
  memory_.ring().set_waited_for(started, true);
  EXPECT_FALSE(awaited().tests);
  memory_.ring().set_ended(started, CallState::failed, true);
  EXPECT_FALSE(awaited().tests);
}

TEST_F(LastCall, TellsOfAShrinkThatIsNoMaking) {
  memory_.begin_making(7, std::array{0, 1}, MakingKind::shrink);
  EXPECT_FALSE(unended_making(memory_.view()));
  EXPECT_TRUE(described().starts_with("it has been shrinking group 'g7' for ")) << described();
  EXPECT_TRUE(described().ends_with(" s; it has made no call in this world yet")) << described();
  memory_.end_making(7, false);
  EXPECT_EQ(described(),
            "it has given up shrinking group 'g7'; it has made no call in this world yet");
}

TEST_F(LastCall, TellsOfTheTagOfAGroup) {
  memory_.begin_making(7, std::array{0, 1}, MakingKind::new_group, "x");
  EXPECT_TRUE(described().starts_with("it has been making group 7 of ranks 0-1 with tag 'x' for "))
      << described();
}

// Its limit may have passed a moment before that of who asks.
TEST_F(LastCall, WhoEndsItsWorldHasJustGivenUpTheGroupThatItMade) {
  memory_.begin_making(7, std::array{0, 1}, MakingKind::new_group);
  EXPECT_TRUE(is_making(memory_.view(), 7));
  EXPECT_FALSE(is_making(memory_.view(), 8));
  memory_.end_making(7, false);
  EXPECT_TRUE(is_making(memory_.view(), 7));
  memory_.begin_making(0, std::array{0, 1}, MakingKind::end);
  EXPECT_TRUE(is_making(memory_.view(), 7));
  EXPECT_FALSE(is_making(memory_.view(), 0));
}

TEST_F(LastCall, WhatIsMadeIsNotGivenUp) {
  memory_.begin_making(7, std::array{0, 1}, MakingKind::new_group);
  memory_.end_making(7, true);
  EXPECT_FALSE(is_making(memory_.view(), 7));
  memory_.begin_making(9, std::array{0, 1}, MakingKind::shrink);
  memory_.end_making(9, false);
  EXPECT_FALSE(is_making(memory_.view(), 9));
}

TEST_F(LastCall, OfWhoEndsItsWorldOnlyTheCallsAreTold) {
  memory_.begin_making(0, std::array{0, 1}, MakingKind::end);
  EXPECT_FALSE(unended_making(memory_.view()));
  EXPECT_EQ(described(), "it has made no call in this world yet");
}

}  // namespace
}  // namespace hymn::test
