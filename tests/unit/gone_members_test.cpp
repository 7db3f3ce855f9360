// What the end of a member means for the operations of its group.
#include "runtime/group/gone_members.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "tests/unit/fake_clock.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint64_t uid = 7;

PeerNews gone(int rank, PeerState state, std::vector<GroupMark> marks = {}) {
  return {.rank = rank, .state = state, .marks = std::move(marks)};
}

/// The members of which something is said, by their ranks in the world: 10 more than in the group.
std::vector<int> ranks_of(const std::vector<PeerNews>& all) {
  std::vector<int> ranks;
  for (const PeerNews& news : all) ranks.push_back(news.rank);
  return ranks;
}

/// Rank 0 of a group of 3; what is asked of it is about member 1, who has gone at `since`.
struct Case {
  const char* what;
  PeerState state;
  std::optional<GroupMark> mark;  ///< of this group
  PendingOp op;
  Duration after;
  bool is_missed;
};

constexpr PendingOp collective{.type = OpType::all_reduce, .sequence = 5};
constexpr PendingOp send_to_it{.type = OpType::send, .peer = 1};
constexpr PendingOp receive_of_it{.type = OpType::recv, .peer = 1};
constexpr PendingOp send_to_other{.type = OpType::send, .peer = 2};
constexpr PendingOp receive_of_other{.type = OpType::recv, .peer = 2};
constexpr PendingOp receive_of_any{.type = OpType::recv, .peer = any_source};

constexpr GroupMark before{uid, 4, 4};
constexpr GroupMark inside{uid, 5, 4};
constexpr GroupMark behind{uid, 6, 5};

const std::vector<Case> cases = {
    {"it has not called it", PeerState::dead, before, collective, 0s, true},
    {"it has left before it", PeerState::left, before, collective, 0s, true},
    {"it is in it: what it did may be on its way", PeerState::dead, inside, collective, 19ms,
     false},
    {"it is in it, and nothing comes any more", PeerState::dead, inside, collective, 20ms, true},
    {"lost in it", PeerState::lost, inside, collective, 20ms, true},
    {"left in it, as others may be slower", PeerState::left, inside, collective, 19ms, false},
    {"it has completed it", PeerState::dead, behind, collective, 1h, false},
    {"it has completed it and left", PeerState::left, behind, collective, 1h, false},
    {"nothing is known: somebody may still say", PeerState::lost, {}, collective, 199ms, false},
    {"nothing is known, nor will be", PeerState::lost, {}, collective, 200ms, true},
    {"of another group", PeerState::dead, GroupMark{8, 9, 9}, collective, 199ms, false},
    {"of another group, later", PeerState::dead, GroupMark{8, 9, 9}, collective, 200ms, true},
    {"a send to it", PeerState::dead, before, send_to_it, 19ms, false},
    {"a send to it, later", PeerState::dead, before, send_to_it, 20ms, true},
    {"a send to it, of whom nothing is known", PeerState::lost, {}, send_to_it, 199ms, false},
    {"a send to it, of whom nothing is known, later", PeerState::lost, {}, send_to_it, 200ms, true},
    {"a receive from it", PeerState::dead, behind, receive_of_it, 19ms, false},
    {"a receive from it, later", PeerState::dead, behind, receive_of_it, 20ms, true},
    {"a receive of what it sent before it left", PeerState::left, behind, receive_of_it, 1999ms,
     false},
    {"a receive of what it has not sent before it left", PeerState::left, behind, receive_of_it, 2s,
     true},
    {"a send to another", PeerState::dead, before, send_to_other, 1h, false},
    {"a receive from another", PeerState::dead, before, receive_of_other, 1h, false},
    {"a receive from any", PeerState::dead, before, receive_of_any, 199ms, false},
    {"a receive from any, who may have been this one", PeerState::dead, before, receive_of_any,
     200ms, true},
    {"a receive from any while one is left", PeerState::left, before, receive_of_any, 1h, false},
};

TEST(GoneMembers, MissWhatTheyHaveNotDone) {
  for (const Case& one : cases) {
    FakeClock clock;
    GoneMembers members(uid, 0, 3);
    PeerNews news = gone(11, one.state);
    if (one.mark) news.marks.push_back(*one.mark);
    members.note(1, news, clock.now());
    clock.advance(one.after);
    EXPECT_EQ(!members.missed_by(one.op, clock.now()).empty(), one.is_missed) << one.what;
  }
}

class GoneMembersTest : public ::testing::Test {
 protected:
  std::vector<int> missed(const PendingOp& op) const {
    return ranks_of(members.missed_by(op, clock.now()));
  }
  FakeClock clock;
  GoneMembers members{uid, 0, 3};
};

TEST_F(GoneMembersTest, ReceivesFromAnyNeedSomebody) {
  members.note(1, gone(11, PeerState::left), clock.now());
  clock.advance(1h);
  EXPECT_THAT(missed(receive_of_any), IsEmpty());
  members.note(2, gone(12, PeerState::dead), clock.now());
  clock.advance(199ms);
  EXPECT_THAT(missed(receive_of_any), IsEmpty()) << "its last word may be on its way";
  clock.advance(1ms);
  EXPECT_THAT(missed(receive_of_any), ElementsAre(12)) << "it may have been the one";
  members.note(2, gone(12, PeerState::left), clock.now());
  EXPECT_THAT(missed(receive_of_any), IsEmpty()) << "it may have sent it before it left";
  clock.advance(1800ms);
  EXPECT_THAT(missed(receive_of_any), ElementsAre(11, 12)) << "nobody is left";
  members.forget(1);
  EXPECT_THAT(missed(receive_of_any), IsEmpty());
}

// A rank that is no member takes part in nothing, and counts nobody out.
TEST(GoneMembers, OfOthersAllAreOthers) {
  FakeClock clock;
  GoneMembers members(uid, -1, 2);
  members.note(0, gone(10, PeerState::left), clock.now());
  clock.advance(1h);
  EXPECT_THAT(members.missed_by(receive_of_any, clock.now()), IsEmpty());
  members.note(1, gone(11, PeerState::left), clock.now());
  clock.advance(1h);
  EXPECT_THAT(ranks_of(members.missed_by(receive_of_any, clock.now())), ElementsAre(10, 11));
}

TEST_F(GoneMembersTest, AllWhoAreMissedAreNamed) {
  members.note(2, gone(12, PeerState::dead, {before}), clock.now());
  members.note(1, gone(11, PeerState::lost, {before}), clock.now());
  EXPECT_THAT(missed(collective), ElementsAre(12, 11));
}

TEST_F(GoneMembersTest, MoreMayBecomeKnown) {
  members.note(1, gone(11, PeerState::lost), clock.now());
  clock.advance(100ms);
  EXPECT_THAT(missed(collective), IsEmpty());
  members.note(1, gone(11, PeerState::dead, {before}), clock.now());
  EXPECT_THAT(missed(collective), ElementsAre(11));
  members.note(1, gone(11, PeerState::dead, {behind}), clock.now());
  EXPECT_THAT(missed(collective), IsEmpty());
  EXPECT_EQ(members.failed().size(), 1u) << "one member, whatever is said of it";
}

// Whoever hears of it again and again waits no longer for that.
TEST_F(GoneMembersTest, TheTimeCountsFromTheFirstWord) {
  for (int i = 0; i < 4; ++i) {
    members.note(1, gone(11, PeerState::lost), clock.now());
    clock.advance(50ms);
  }
  EXPECT_THAT(missed(collective), ElementsAre(11));
}

TEST_F(GoneMembersTest, WhoComesBackIsWaitedForAgain) {
  members.note(1, gone(11, PeerState::lost), clock.now());
  clock.advance(1h);
  EXPECT_THAT(missed(collective), ElementsAre(11));
  members.forget(1);
  EXPECT_THAT(missed(collective), IsEmpty());
  EXPECT_THAT(members.failed(), IsEmpty());
  members.note(1, gone(11, PeerState::lost), clock.now());
  EXPECT_THAT(missed(collective), IsEmpty()) << "the time counts anew";
}

TEST_F(GoneMembersTest, LeavingIsNoFailure) {
  members.note(1, gone(11, PeerState::left, {inside}), clock.now());
  members.note(2, gone(12, PeerState::dead, {before}), clock.now());
  EXPECT_THAT(ranks_of(members.failed()), ElementsAre(12));
  EXPECT_THAT(members.left_before(5), IsEmpty());
  EXPECT_THAT(ranks_of(members.left_before(6)), ElementsAre(11));
}

}  // namespace
}  // namespace hymn::test
