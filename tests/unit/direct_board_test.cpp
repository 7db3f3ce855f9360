// Members that work on each other's memory, and what happens to it when one of them gives up.
#include "collectives/shm/direct_board.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>

#include "base/log.hpp"
#include "hymn/allocate.hpp"
#include "hymn/error.hpp"
#include "tests/unit/region_scene.hpp"

namespace hymn::test {
namespace {

constexpr std::size_t bytes = 10 * 4096;

/// One of two members, in a process of its own.
struct Member {
  Member(const Bytes& ticket, int me, int control_block, int area, const RegionPlan& plan)
      : channel(std::make_shared<ShmChannel>(join(ticket, plan, 2, me), std::vector{0, 1}, true,
                                             control_block, [](const std::string&) {})),
        board(channel, area) {
    call.usable = 1;
    call.input = call.output = *SharedHeap::of_process().find(buffer.data(), bytes);
  }

  /// Until both members have mapped each other's buffer.
  void meet() {
    board.show(call);
    while (!board.all_have_shown()) usleep(50);
    board.map();
    while (!board.all_have_mapped()) usleep(50);
  }

  std::shared_ptr<ShmChannel> channel;
  DirectBoard board;
  SharedBuffer buffer{bytes};
  DirectCall call;
};

class DirectBoardTest : public testing::Test {
 protected:
  Member member(int me) const { return {maker_->ticket(), me, control_block_, area_, plan_}; }

  /// The second member touches the first one's memory, says so, and goes on when it is told to.
  template <class Work>
  void touch_until_told(const Member& second, Work work) {
    const DirectBoard::Touch touch(second.board);
    to_this_.send("at work");
    to_other_.receive();
    work();
  }
  void meet_and_be_touched(Member& first) {
    first.meet();
    to_this_.receive();
  }

  RegionPlan plan_;
  int control_block_ = ShmChannel::add_control_block(plan_);
  int area_ = plan_.add(DirectBoard::area_bytes(), at_once);
  std::unique_ptr<RegionMaker> maker_ = RegionMaker::make(plan_, 2);
  Wire to_other_;
  Wire to_this_;
};

TEST_F(DirectBoardTest, NobodyMeetsBeforeAllAreKnownToHaveMemory) {
  Child other([&]() -> std::string {
    Member second = member(1);
    const DirectCall nothing;
    if (second.board.meets(nothing)) return "meets without memory";
    to_this_.send("");
    to_other_.receive();
    second.board.end_round();
    if (second.board.meets(second.call)) return "meets before the round is over";
    to_this_.send("");
    to_other_.receive();
    second.board.end_round();
    return second.board.meets(nothing) ? "" : "does not meet";
  });
  Member first = member(0);
  EXPECT_FALSE(first.board.meets(first.call));
  to_this_.receive();
  first.board.end_round();
  EXPECT_FALSE(first.board.meets(first.call));
  to_other_.send("");
  to_this_.receive();
  // The other has memory from the second round on, and that is not over.
  EXPECT_FALSE(first.board.meets(first.call));
  first.board.end_round();
  EXPECT_TRUE(first.board.meets(first.call));
  to_other_.send("");
  EXPECT_EQ(other.report(), "");
}

TEST_F(DirectBoardTest, BothWriteToEachOther) {
  Child other([&]() -> std::string {
    Member second = member(1);
    second.meet();
    if (!second.board.went_well()) return "not mapped";
    {
      const DirectBoard::Touch touch(second.board);
      second.board.output(0)[5] = std::byte{1};
    }
    second.board.leave();
    while (!second.board.all_have_left()) usleep(50);
    second.board.show(second.call);
    while (!second.board.all_have_shown()) usleep(50);
    if (!second.board.all_know()) return "not all know";
    return second.buffer.data()[6] == std::byte{2} ? "" : "was not written";
  });
  Member first = member(0);
  first.meet();
  EXPECT_TRUE(first.board.went_well());
  {
    const DirectBoard::Touch touch(first.board);
    first.board.output(1)[6] = std::byte{2};
  }
  first.board.leave();
  while (!first.board.all_have_left()) usleep(50);
  EXPECT_EQ(first.buffer.data()[5], std::byte{1});
  first.board.show(first.call);
  while (!first.board.all_have_shown()) usleep(50);
  EXPECT_TRUE(first.board.all_know());
  EXPECT_EQ(other.report(), "");
}

TEST_F(DirectBoardTest, MemoryThatCannotBeMappedEndsTheMeetings) {
  Child other([&]() -> std::string {
    Member second = member(1);
    ++second.call.input.token;
    second.meet();
    return second.board.went_well() ? "went well" : "";
  });
  Member first = member(0);
  first.meet();
  EXPECT_FALSE(first.board.went_well());
  EXPECT_FALSE(first.board.meets(first.call));
  EXPECT_EQ(other.report(), "");
}

// The other is stopped in the middle of its work, and goes on much later.
TEST_F(DirectBoardTest, WhoDoesNotComeBackIsCutOff) {
  Child other([&]() -> std::string {
    Member second = member(1);
    second.meet();
    touch_until_told(second, [&] { std::fill_n(second.board.output(0), bytes, std::byte{9}); });
    return "";
  });
  Member first = member(0);
  meet_and_be_touched(first);
  std::fill_n(first.buffer.data(), bytes, std::byte{4});
  first.board.give_up(first.buffer.data(), bytes);
  EXPECT_FALSE(SharedHeap::of_process().find(first.buffer.data(), bytes));
  to_other_.send("");
  EXPECT_EQ(other.report(), "");
  EXPECT_EQ(others_than(std::byte{4}, first.buffer.data(), bytes), 0u);
}

// The other reads when the memory is used for something else already.
TEST_F(DirectBoardTest, WhoReadsTooLateFindsOut) {
  Child other([&]() -> std::string {
    Member second = member(1);
    second.meet();
    std::byte seen{};
    touch_until_told(second, [&] { seen = second.board.input(0)[0]; });
    if (seen != std::byte{5}) return "reads something else";
    second.board.leave();
    return "has left";
  });
  Member first = member(0);
  meet_and_be_touched(first);
  first.board.leave();
  std::string said;
  const LogSink before =
      set_log_sink([&said](LogLevel, int, std::string_view text) { said = text; });
  first.board.give_up(nullptr, 0);
  set_log_sink(before);
  EXPECT_EQ(said, "") << "it has tried as long as it may, though there is nothing to cut off";
  EXPECT_TRUE(SharedHeap::of_process().find(first.buffer.data(), bytes)) << "need not be cut off";
  first.buffer.data()[0] = std::byte{5};
  to_other_.send("");
  EXPECT_THAT(other.report(), testing::HasSubstr("has given up"));
}

// Where there is no memory to cut the buffer off, the member does not try for ever.
TEST_F(DirectBoardTest, GivingUpEnds) {
  if (address_sanitized) GTEST_SKIP() << "no limit on address space can be set";
  Child other([&]() -> std::string {
    Member second = member(1);
    second.meet();
    touch_until_told(second, [] {});
    return "";
  });
  Member first = member(0);
  meet_and_be_touched(first);
  std::string said;
  const LogSink before =
      set_log_sink([&said](LogLevel, int, std::string_view text) { said = text; });
  const auto began = std::chrono::steady_clock::now();
  {
    const Limit no_more(RLIMIT_AS, 1 << 20);
    first.board.give_up(first.buffer.data(), bytes);
  }
  const auto took = std::chrono::steady_clock::now() - began;
  set_log_sink(before);
  EXPECT_GT(took, std::chrono::seconds(2)) << "there might have been memory later";
  EXPECT_LT(took, std::chrono::seconds(15));
  EXPECT_THAT(said, testing::HasSubstr("40960 bytes"));
  EXPECT_FALSE(SharedHeap::of_process().find(first.buffer.data(), bytes));
  to_other_.send("");
  EXPECT_EQ(other.report(), "");
}

TEST_F(DirectBoardTest, WhoComesBackIsWaitedFor) {
  Child other([&]() -> std::string {
    Member second = member(1);
    second.meet();
    {
      const DirectBoard::Touch touch(second.board);
      to_this_.send("at work");
      usleep(20'000);
      second.board.output(0)[0] = std::byte{9};
    }
    to_other_.receive();
    const DirectBoard::Touch again(second.board);
    return "touches what was given up";
  });
  Member first = member(0);
  meet_and_be_touched(first);
  first.board.give_up(first.buffer.data(), bytes);
  // Unless it took so long that it was cut off, perhaps in the very moment in which it wrote, what
  // it did was waited for.
  const bool cut_off = !SharedHeap::of_process().find(first.buffer.data(), bytes);
  if (!cut_off || first.buffer.data()[0] != std::byte{0}) {
    EXPECT_EQ(first.buffer.data()[0], std::byte{9});
  }
  to_other_.send("");
  EXPECT_THAT(other.report(), testing::HasSubstr("has given up"));
}

}  // namespace
}  // namespace hymn::test
