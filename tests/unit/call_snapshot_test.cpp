// What a rank shows of its collectives to those that follow it: read in its ring, told in a
// message, and remembered by who asks for it.
#include "recorder/call_snapshot.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hymn/error.hpp"
#include "runtime/join/shadow_source.hpp"
#include "tests/unit/fake_clock.hpp"
#include "tests/unit/own_ring.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint64_t snapshot_group = 7;

CallRecord call_number(std::uint64_t sequence, std::uint64_t uid = snapshot_group) {
  CallRecord call;
  call.group_uid = uid;
  call.sequence = sequence;
  call.type = OpType::reduce;
  call.kind = ReduceKind::max;
  call.peer = 3;
  call.input = {.count = sequence * 10, .dtype = DataType::float16, .layout = Layout::whole};
  call.output = {.dtype = DataType::float64, .layout = Layout::list, .even = false};
  return call;
}

std::vector<std::uint64_t> numbers_of(const CallSnapshot& snapshot) {
  std::vector<std::uint64_t> numbers;
  for (const CallRecord& call : snapshot.calls) numbers.push_back(call.sequence);
  return numbers;
}

/// A rank with a group whose calls are made here.
struct Rank {
  explicit Rank(CallRing::Size size = {}) : ring(size), size_of_ring(size) {}
  void call(std::uint64_t sequence) {
    line.collectives = sequence;
    ring->record(call_number(sequence));
  }
  CallSnapshot look(std::uint64_t sequence) const {
    return look_at_calls(line, CallRing::attach(ring.memory(), size_of_ring), snapshot_group,
                         sequence);
  }

  GroupLine line;
  OwnRing ring;
  CallRing::Size size_of_ring;
};

TEST(CallSnapshot, ShowsCallsFromTheOneThatIsAskedFor) {
  Rank rank;
  for (std::uint64_t sequence = 1; sequence <= 5; ++sequence) {
    rank.call(sequence);
    rank.ring->record(call_number(sequence, snapshot_group + 1));
    CallRecord message = call_number(sequence);
    message.type = OpType::send;
    rank.ring->record(message);
  }
  const CallSnapshot snapshot = rank.look(3);
  EXPECT_THAT(numbers_of(snapshot), ElementsAre(3, 4, 5));
  EXPECT_TRUE(snapshot.is_recorded);
  EXPECT_FALSE(snapshot.is_overwritten);
  EXPECT_THAT(numbers_of(rank.look(6)), IsEmpty());
  EXPECT_FALSE(rank.look(6).is_overwritten);
}

TEST(CallSnapshot, StopsBeforeWhatIsBeingWritten) {
  Rank rank;
  rank.call(1);
  const std::uint64_t torn = rank.ring->claim();
  rank.call(3);
  EXPECT_THAT(numbers_of(rank.look(1)), ElementsAre(1));
  EXPECT_THAT(numbers_of(rank.look(2)), IsEmpty());
  EXPECT_FALSE(rank.look(2).is_overwritten);
  rank.ring->fill(torn, call_number(2));
  EXPECT_THAT(numbers_of(rank.look(2)), ElementsAre(2, 3));
}

TEST(CallSnapshot, TellsOfWhatIsOverwritten) {
  Rank rank;
  for (std::uint64_t sequence = 1; sequence <= 600; ++sequence) rank.call(sequence);
  EXPECT_TRUE(rank.look(10).is_overwritten);
  EXPECT_THAT(numbers_of(rank.look(10)), IsEmpty());
  EXPECT_FALSE(rank.look(599).is_overwritten);
}

TEST(CallSnapshot, ShowsNoMoreThanFitsIntoAMessage) {
  Rank rank;
  for (std::uint64_t sequence = 1; sequence <= 200; ++sequence) rank.call(sequence);
  const auto numbers = numbers_of(rank.look(2));
  ASSERT_EQ(numbers.size(), CallSnapshot::most_calls);
  EXPECT_EQ(numbers.front(), 2u);
}

TEST(CallSnapshot, TellsOfARankThatHasRunOut) {
  Rank rank;
  rank.line.joined_at = 4;
  rank.line.joins = 2;
  EXPECT_EQ(rank.look(1).joins, 2u);
  EXPECT_EQ(rank.look(1).joined_at, 4u);
}

TEST(CallSnapshot, ComesThroughAMessage) {
  Rank rank;
  rank.call(1);
  rank.call(2);
  const CallSnapshot back = snapshot_of(report_of(rank.look(1)));
  ASSERT_EQ(numbers_of(back), numbers_of(rank.look(1)));
  const CallRecord& call = back.calls.back();
  const CallRecord made = call_number(2);
  EXPECT_EQ(call.type, made.type);
  EXPECT_EQ(call.kind, made.kind);
  EXPECT_EQ(call.peer, made.peer);
  EXPECT_EQ(call.input, made.input);
  EXPECT_EQ(call.output, made.output);
  CallRecord barrier;
  barrier.sequence = 9;
  EXPECT_EQ(snapshot_of(report_of({.calls = {barrier}})).calls.front().peer, -1);
}

/// Rank i gives, and gets, i + 1 elements.
SeenCall uneven_call(std::size_t ranks) {
  SeenCall call = call_number(1);
  call.type = OpType::all_to_all;
  call.input = {.dtype = DataType::int32, .layout = Layout::counted};
  call.output = {.dtype = DataType::int32, .layout = Layout::list, .even = false};
  for (std::size_t rank = 1; rank <= ranks; ++rank) {
    call.counts.input.push_back(rank);
    call.counts.output.push_back(rank * 100);
  }
  return call;
}

TEST(CallSnapshot, SizesOfBlocksComeThroughAMessage) {
  const CallSnapshot told = {.calls = {call_number(1), uneven_call(3), call_number(3)}};
  const CallSnapshot back = snapshot_of(report_of(told));
  ASSERT_EQ(numbers_of(back), numbers_of(told));
  EXPECT_EQ(back.calls[1].counts, told.calls[1].counts);
  EXPECT_EQ(back.calls[2].counts, BlockCounts());
  CallProgress cut = report_of({.calls = {uneven_call(3)}});
  cut.calls.pop_back();
  EXPECT_THROW(snapshot_of(cut), NetworkError);
}

TEST(CallSnapshot, TellsHowCoalescedCallsAreCutAsFarAsThatIsKnown) {
  SeenCall call = call_number(1);
  call.coalesced = call.own_bundles = true;
  call.input = {.count = 12, .buffers = 3, .layout = Layout::list};
  const SeenCall back = snapshot_of(report_of({.calls = {call}})).calls.front();
  EXPECT_TRUE(back.own_bundles);
  EXPECT_THAT(counts_of_buffers(back.input, {}), ElementsAre(4, 4, 4));
  // It may be more of them.
  call.input = {.count = 70000, .buffers = CallSide::most_buffers, .layout = Layout::list};
  EXPECT_THAT(counts_of_buffers(call.input, {}), IsEmpty());
  EXPECT_EQ(facts_of(call).cut, 0u);
}

TEST(CallSnapshot, TellsInWhatOrderDimensionsLie) {
  constexpr std::uint64_t channels_last = 0x2130;  // 0, 2, 3, 1, each with its own place xored
  SeenCall call = call_number(1);
  call.input.set_order(channels_last);
  const SeenCall back = snapshot_of(report_of({.calls = {call}})).calls.front();
  EXPECT_EQ(facts_of(back).order, channels_last);
  EXPECT_EQ(facts_of(back), facts_of(call));
}

TEST(CallSnapshot, ShowsNoMoreSizesThanFitIntoAMessage) {
  Rank rank({.counts = 3000});
  const std::vector<std::size_t> sizes(3000, 1);
  std::vector<std::int8_t> data(sizes.size());
  const Request request =
      Request::all_gather(view_of(data.front()), OutputBlocks::counted(data, sizes));
  for (std::uint64_t sequence = 1; sequence <= 3; ++sequence) {
    CallRecord call = call_number(sequence);
    call.output = side_of(request.outputs);
    const std::uint64_t id = rank.ring->claim();
    rank.ring->keep_sizes(id, request);
    rank.ring->fill(id, call);
    rank.line.collectives = sequence;
  }
  EXPECT_THAT(numbers_of(rank.look(1)), ElementsAre(1)) << "two have more than 4096 sizes";
  EXPECT_EQ(rank.look(3).calls.at(0).counts.output.size(), 3000u);
}

TEST(CallSnapshot, RefusesCallsThatThereAreNot) {
  const CallProgress good = report_of({.calls = {call_number(1)}});
  EXPECT_NO_THROW(snapshot_of(good));
  for (std::size_t word = 1; word < good.calls.size(); ++word) {
    if (word == 2 || word == 3) continue;  // counts may be any
    for (const unsigned bit : {7u, 15u, 31u}) {
      if (word == 1 && bit == 31) continue;  // below it is the sign of the root
      CallProgress bad = good;
      bad.calls[word] ^= std::uint64_t{1} << bit;
      EXPECT_THROW(snapshot_of(bad), NetworkError) << "word " << word << ", bit " << bit;
    }
  }
  CallProgress half = good;
  half.calls.pop_back();
  EXPECT_THROW(snapshot_of(half), NetworkError);
}

// --- Those who are asked

class Deaf : public control::Listener {
 public:
  void peer_changed(const PeerNews&) override {}
  void group_aborted(const control::AbortGroup&) override {}
  void dump_asked(const control::DumpNow&) override {}
  ProgressReport tell(const Inquiry&) override { return {}; }
  CallProgress tell_calls(std::uint64_t, std::uint64_t) override { return {}; }
  std::vector<GroupMark> marks() override { return {}; }
};

/// Rank 0 of 4, which asks the others.
class AskedMembersTest : public ::testing::Test {
 protected:
  AskedMembersTest() {
    for (const int rank : {1, 2, 3}) members.add(rank);
  }
  /// Looks for this collective, and tells who was asked for it since the last time.
  std::vector<int> look(std::uint64_t sequence) {
    members.look(sequence, 1, wanted);
    return take_asked();
  }
  /// The same a little later, when what was answered is known.
  std::vector<int> look_later(std::uint64_t sequence) {
    members.look(sequence, 1, wanted);
    clock.advance(1s);
    return look(sequence);
  }
  std::vector<int> take_asked() {
    std::vector<int> ranks;
    for (const control::Message& message : std::exchange(sent, {})) {
      const auto* question = std::get_if<control::CallQuestion>(&message);
      if (question == nullptr) continue;
      last = question->id;
      ranks.insert(ranks.end(), question->asked.begin(), question->asked.end());
    }
    return ranks;
  }
  void answer(int rank, const CallSnapshot& snapshot) {
    CallProgress report = report_of(snapshot);
    report.rank = rank;
    agent.receive(control::CallAnswer{last, 0, report});
  }
  void answer_with_nothing(std::initializer_list<int> ranks) {
    for (const int rank : ranks) answer(rank, {.is_recorded = true});
  }
  const detail::ShadowedMember& member(int rank) const {
    return members.members()[static_cast<std::size_t>(rank - 1)];
  }

  Deaf deaf;
  FakeClock clock;
  std::vector<control::Message> sent;
  std::uint64_t last = 0;
  detail::Wanted wanted = detail::Wanted::any;
  control::Agent agent{0, 4, deaf,
                       [this](const control::Message& message) { sent.push_back(message); }};
  detail::AskedMembers members{&agent, clock, snapshot_group};
};

TEST_F(AskedMembersTest, FollowsOneThatHasInput) {
  EXPECT_THAT(look(1), ElementsAre(1, 2, 3));
  clock.advance(500ms);
  EXPECT_THAT(look(1), IsEmpty()) << "they have not answered";
  answer_with_nothing({2, 3});
  answer(1, {.is_recorded = true, .joins = 1, .joined_at = 0});
  EXPECT_THAT(look_later(1), ElementsAre(2, 3)) << "the one that was followed has run out";
  answer_with_nothing({2, 3});
  const auto followed = look_later(1);
  ASSERT_EQ(followed.size(), 1u);
  answer(followed.front(), {.is_recorded = true, .calls = {call_number(1), call_number(2)}});
  EXPECT_THAT(look_later(1), IsEmpty());
  ASSERT_NE(member(followed.front()).find(1), nullptr);
  EXPECT_THAT(look_later(2), IsEmpty()) << "this one is known, too";
  EXPECT_THAT(look(3), followed);
}

TEST_F(AskedMembersTest, AsksAllWhereAllAreWanted) {
  look(1);
  answer(1, {.is_recorded = true, .calls = {call_number(1)}});
  answer(2, {.is_recorded = true, .joins = 1, .joined_at = 0});
  answer_with_nothing({3});
  EXPECT_THAT(look_later(1), IsEmpty()) << "one is enough";
  wanted = detail::Wanted::all;
  EXPECT_THAT(look(1), ElementsAre(3)) << "rank 1 is known, and rank 2 has run out";
  answer(3, {.is_recorded = true, .calls = {call_number(1)}});
  EXPECT_THAT(look_later(1), IsEmpty());
  EXPECT_NE(member(3).find(1), nullptr);
}

TEST_F(AskedMembersTest, AsksSeldomerTheLongerNothingComes) {
  look(1);
  answer_with_nothing({1, 2, 3});
  look(1);
  int asked = 0;
  for (int millisecond = 0; millisecond < 2000; ++millisecond) {
    clock.advance(1ms);
    const auto ranks = look(1);
    if (ranks.empty()) continue;
    ++asked;
    answer_with_nothing({ranks.front()});
    look(1);
  }
  EXPECT_GT(asked, 2000 / 7);
  EXPECT_LT(asked, 2000 / 4);
}

TEST_F(AskedMembersTest, AsksAgainWhereNoAnswerComes) {
  look(1);
  clock.advance(999ms);
  EXPECT_THAT(look(1), IsEmpty());
  clock.advance(2ms);
  EXPECT_FALSE(look(1).empty());
}

TEST_F(AskedMembersTest, WhoIsGoneIsNotWaitedFor) {
  look(1);
  answer_with_nothing({1, 2});
  agent.receive(control::News{{.rank = 3, .state = PeerState::dead}});
  EXPECT_FALSE(look_later(1).empty());
}

TEST_F(AskedMembersTest, TheLastCallsOfAMemberAreItsOwn) {
  look(1);
  answer(
      1,
      {.is_recorded = true, .joins = 1, .joined_at = 1, .calls = {call_number(1), call_number(2)}});
  look(1);
  EXPECT_TRUE(member(1).makes(1, 1));
  EXPECT_FALSE(member(1).makes(2, 1)) << "made in the shadow of others, or after the join";
  EXPECT_TRUE(member(1).makes(2, 2)) << "of the next round";
  EXPECT_NE(member(1).find(1), nullptr);
}

TEST_F(AskedMembersTest, KnowsWhoKeepsNoRecords) {
  look(1);
  answer(1, {.is_recorded = false});
  look(1);
  EXPECT_TRUE(member(1).is_silent());
  EXPECT_FALSE(member(2).is_silent());
}

}  // namespace
}  // namespace hymn::test
