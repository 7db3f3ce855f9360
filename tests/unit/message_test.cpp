// Messages of the control plane: what goes onto the wire comes back, and what is no message is
// refused.
#include "control/message.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <set>

#include "control/link_server.hpp"
#include "hymn/error.hpp"

namespace hymn::test {
namespace {

using namespace control;

constexpr std::uint64_t greatest = std::numeric_limits<std::uint64_t>::max();

/// One of each kind, and those with the greatest and the least that they can hold.
std::vector<Message> samples() {
  const std::vector<GroupMark> marks = {{1, 20, 19}, {greatest, greatest, 0}};
  const PeerNews news{.rank = 3, .state = PeerState::dead, .detail = "killed", .marks = marks};
  const ProgressReport report{.rank = 2,
                              .state = PeerState::stalled,
                              .knows_group = true,
                              .entered = 5,
                              .completed = 4,
                              .doing = "it is in all_reduce #5",
                              .remark = "; it has seen a failure of rank 7",
                              .waits = true,
                              .call = "all_reduce of 4 float32 with sum",
                              .site = "solver.cpp:88",
                              .signature = greatest};
  Inquiry in_the_program(7, greatest);
  in_the_program.sites = true;
  const CallProgress calls{.rank = 2,
                           .knows_group = true,
                           .is_recorded = true,
                           .is_overwritten = true,
                           .joins = 3,
                           .joined_at = greatest,
                           .calls = {1, greatest, 0}};
  return {Beat{},
          Beat{marks},
          Goodbye{marks},
          Goodbye{marks, "why", {1}, true},
          News{news},
          News{{.rank = -1, .state = PeerState::left}},
          AbortGroup{7, std::string("a\0b", 3), {1, std::numeric_limits<int>::min()}},
          DumpNow{"asked"},
          Question{9, 1, 7, {0, 2, std::numeric_limits<int>::max()}},
          Question{9, 1, in_the_program, {0}},
          Answer{9, 1, report},
          Answer{},
          EnteredCall{7, 12, greatest, "all_reduce of 4 float32 with sum"},
          ShrinkCall{7, {0, 1, 2}},
          ShrinkVerdict{7, greatest, {0, 2}},
          Moved{},
          CallQuestion{9, 1, 7, greatest, {0, 2}},
          CallAnswer{9, 1, calls},
          CallAnswer{},
          Flush{greatest}};
}

/// Numbers behind one another, as a message is made of them.
Bytes numbers(std::initializer_list<std::uint64_t> values) {
  Packer packer;
  for (const std::uint64_t value : values) packer.number(value);
  return packer.packed();
}

constexpr std::uint64_t kind_of(const Message& message) { return message.index(); }

TEST(ControlMessage, ComesBackAsItWas) {
  std::set<std::size_t> kinds;
  for (const Message& message : samples()) {
    EXPECT_EQ(unpack(pack(message)), message) << "kind " << message.index();
    kinds.insert(message.index());
  }
  EXPECT_EQ(kinds.size(), std::variant_size_v<Message>) << "a kind has no sample";
}

TEST(ControlMessage, KindsKeepTheirNumbers) {
  EXPECT_EQ(pack(Moved{}), numbers({10}));
  EXPECT_EQ(pack(CallQuestion{1, 2, 3, 4, {5}}), numbers({11, 1, 2, 3, 4, 1, 5}));
  EXPECT_EQ(pack(CallAnswer{1, 2, {.rank = 3, .joins = 4, .joined_at = 5, .calls = {6}}}),
            numbers({12, 1, 2, 3, 0, 0, 0, 4, 5, 1, 6}));
  EXPECT_EQ(pack(Beat{{{7, 2, 1}}}), numbers({0, 1, 7, 2, 1}));
  EXPECT_EQ(pack(ShrinkVerdict{1, 2, {-1}}), numbers({9, 1, 2, 1, greatest}));
}

TEST(ControlMessage, RefusesWhatIsCutOff) {
  for (const Message& message : samples()) {
    const Bytes whole = pack(message);
    for (std::size_t size = 0; size < whole.size(); ++size)
      EXPECT_THROW(unpack(std::span(whole).first(size)), NetworkError)
          << "kind " << message.index() << ", " << size << " bytes of " << whole.size();
  }
}

TEST(ControlMessage, RefusesWhatGoesOn) {
  for (const Message& message : samples()) {
    Bytes longer = pack(message);
    longer.push_back(std::byte{0});
    EXPECT_THROW(unpack(longer), NetworkError) << "kind " << message.index();
  }
}

TEST(ControlMessage, RefusesKindsThatAreNone) {
  for (const std::uint64_t kind : {std::uint64_t{13}, std::uint64_t{1} << 32, greatest})
    EXPECT_THROW(unpack(numbers({kind})), NetworkError) << kind;
}

TEST(ControlMessage, RefusesCountsWithNothingBehind) {
  const std::uint64_t beat = kind_of(Beat{});
  for (const std::uint64_t count : {std::uint64_t{2}, std::uint64_t{1} << 40, greatest}) {
    EXPECT_THROW(unpack(numbers({beat, count, 1, 1, 1})), NetworkError) << count;
    EXPECT_THROW(unpack(numbers({kind_of(DumpNow{}), count})), NetworkError) << count;
    EXPECT_THROW(unpack(numbers({kind_of(ShrinkCall{}), 7, count, 1})), NetworkError) << count;
  }
}

// What two different messages could stand for would be read differently than it was meant.
TEST(ControlMessage, RefusesValuesThatNobodyWrites) {
  const std::uint64_t news = kind_of(News{});
  EXPECT_NO_THROW(unpack(numbers({news, 0, 4, 0, 0, 0, 0})));
  EXPECT_THROW(unpack(numbers({news, 0, 5, 0, 0, 0})), NetworkError) << "a state";
  EXPECT_THROW(unpack(numbers({news, std::uint64_t{1} << 31, 4, 0, 0, 0})), NetworkError)
      << "a rank";
  EXPECT_THROW(unpack(numbers({news, greatest << 32, 4, 0, 0, 0})), NetworkError) << "a rank";
  const std::uint64_t answer = kind_of(Answer{});
  EXPECT_NO_THROW(unpack(
      numbers({answer, 1, 1, 2, 0, 1, 0, 5, 4, 0, 0, 0, 0, 1, 0, 0, 0, 7, 8, 0, 9, 0, 1, 1, 0})));
  EXPECT_THROW(unpack(numbers(
                   {answer, 1, 1, 2, 0, 2, 0, 5, 4, 0, 0, 0, 0, 1, 0, 0, 0, 7, 8, 0, 9, 0, 1, 1})),
               NetworkError)
      << "a truth";
}

TEST(ControlMessage, LongTextsAreCut) {
  const std::string longest(longest_text, 'x');
  EXPECT_EQ(unpack(pack(DumpNow{longest})), Message(DumpNow{longest}));
  EXPECT_EQ(unpack(pack(AbortGroup{7, longest + "more", {1}})),
            Message(AbortGroup{7, longest, {1}}));
  EXPECT_THROW(unpack(Packer().number(kind_of(DumpNow{})).text(longest + "x").packed()),
               NetworkError);
}

TEST(ControlMessage, RefusalsTellWhatToDo) {
  try {
    unpack(numbers({99}));
    FAIL() << "is taken";
  } catch (const NetworkError& error) {
    EXPECT_NE(std::string(error.what()).find("control plane"), std::string::npos);
    EXPECT_FALSE(error.context().remedy.empty());
  }
}

TEST(PeerState, HasNames) {
  EXPECT_EQ(to_string(PeerState::alive), "alive");
  EXPECT_EQ(to_string(PeerState::stalled), "stalled");
  EXPECT_EQ(to_string(PeerState::left), "left");
  EXPECT_EQ(to_string(PeerState::lost), "lost");
  EXPECT_EQ(to_string(PeerState::dead), "dead");
  EXPECT_FALSE(is_gone(PeerState::stalled));
  EXPECT_TRUE(is_gone(PeerState::left));
  EXPECT_FALSE(has_failed(PeerState::left));
  EXPECT_TRUE(has_failed(PeerState::lost));
}

std::vector<GroupMark> marks_of(std::size_t groups) {
  std::vector<GroupMark> marks(groups);
  for (std::size_t i = 0; i < groups; ++i) marks[i] = {.uid = i, .entered = i + 1};
  return marks;
}

// 44 000 groups that live at the same time would not fit into a frame.
TEST(MessageParts, HoldSoManyMarksAtMost) {
  for (const std::size_t groups : {std::size_t{0}, std::size_t{1}, most_marks - 1, most_marks,
                                   most_marks + 1, 2 * most_marks, std::size_t{44000}}) {
    for (const Message& whole :
         {Message(Beat{marks_of(groups)}), Message(Goodbye{marks_of(groups), "why", {1}})}) {
      const auto parts = in_parts(whole);
      std::map<std::uint64_t, GroupMark> told;
      for (const Message& part : parts) {
        EXPECT_LE(pack(part).size(), LinkLimits().frame_bytes);
        const auto* beat = std::get_if<Beat>(&part);
        const auto& marks = beat != nullptr ? beat->marks : std::get<Goodbye>(part).marks;
        for (const GroupMark& mark : marks) EXPECT_TRUE(told.emplace(mark.uid, mark).second);
      }
      EXPECT_EQ(told.size(), groups);
      // After a goodbye nothing is heard.
      EXPECT_EQ(parts.back().index(), whole.index());
    }
  }
}

TEST(MessageParts, OthersStayAsTheyAre) {
  const Message message(AbortGroup{7, "why", {1, 2}});
  EXPECT_EQ(in_parts(message), std::vector{message});
}

}  // namespace
}  // namespace hymn::test
