// What the coordinator passes on of dumps and calls, and finds in these.
#include <gmock/gmock.h>

#include "tests/unit/coordinator_scene.hpp"

namespace hymn::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_F(CoordinatorTest, DumpsAreAskedOfAllOthers) {
  all_join();
  lose(3);
  letters.clear();
  say(1, DumpNow{"why"});
  EXPECT_THAT(take<DumpNow>(),
              ElementsAre(std::pair(0, DumpNow{"why"}), std::pair(2, DumpNow{"why"})));
}

TEST_F(CoordinatorTest, DumpsAreAskedOfThoseWhoComeLaterToo) {
  for (const int rank : {0, 1, 2}) coordinator->join(rank, now);
  letters.clear();
  say(1, DumpNow{"why"});
  EXPECT_THAT(take<DumpNow>(),
              ElementsAre(std::pair(0, DumpNow{"why"}), std::pair(2, DumpNow{"why"})));
  coordinator->join(3, now);
  EXPECT_THAT(take<DumpNow>(), ElementsAre(std::pair(3, DumpNow{"why"})));
  lose(3);
  coordinator->join(3, now);
  EXPECT_THAT(take<DumpNow>(), IsEmpty());
}

TEST_F(CoordinatorTest, QuestionsGoToThoseWhoAreAskedAndHere) {
  coordinator->join(0, now);
  coordinator->join(1, now);
  coordinator->join(2, now);
  say(2, Goodbye{});
  letters.clear();
  // Whatever it says, who asks is who it came from.
  say(0, Question{.id = 5, .asker = 3, .about = 7, .asked = {1, 0, 2, 3, -1, 99}});
  EXPECT_THAT(take<Question>(),
              ElementsAre(std::pair(1, Question{.id = 5, .asker = 0, .about = 7})));
}

TEST_F(CoordinatorTest, AnswersGoToTheAskerAlone) {
  all_join();
  say(1, Answer{5, 0, {.rank = 3, .entered = 2}});
  EXPECT_THAT(take<Answer>(), ElementsAre(std::pair(0, Answer{5, 0, {.rank = 1, .entered = 2}})));
  say(1, Answer{5, -1, {}});
  say(1, Answer{5, 99, {}});
  lose(2);
  letters.clear();
  say(1, Answer{5, 2, {}});
  EXPECT_THAT(letters, IsEmpty());
}

TEST_F(CoordinatorTest, PassesOnWhatIsAskedOfCalls) {
  all_join();
  say(0, CallQuestion{.id = 5, .asker = 3, .uid = 7, .sequence = 4, .asked = {1, 0, 99}});
  EXPECT_THAT(
      take<CallQuestion>(),
      ElementsAre(std::pair(1, CallQuestion{.id = 5, .asker = 0, .uid = 7, .sequence = 4})));
  say(1, CallAnswer{5, 0, {.rank = 3, .joins = 2, .calls = {1, 2}}});
  EXPECT_THAT(
      take<CallAnswer>(),
      ElementsAre(std::pair(0, CallAnswer{5, 0, {.rank = 1, .joins = 2, .calls = {1, 2}}})));
  say(1, CallAnswer{5, 99, {}});
  EXPECT_THAT(letters, IsEmpty());
}

TEST_F(CoordinatorTest, DifferentCallsAbortTheGroup) {
  all_join();
  say(0, EnteredCall{7, 12, 1, "all_reduce of 4"});
  say(1, EnteredCall{7, 12, 1, "all_reduce of 4"});
  say(1, EnteredCall{7, 13, 2, "barrier"});
  say(2, EnteredCall{8, 12, 2, "barrier"});
  EXPECT_THAT(letters, IsEmpty()) << "other calls, and other groups, are none of its business";
  say(3, EnteredCall{7, 12, 2, "barrier"});
  const auto aborts = take<AbortGroup>();
  ASSERT_EQ(aborts.size(), 4u) << "those who differ hear of it, too";
  EXPECT_EQ(aborts[0].second.uid, 7u);
  EXPECT_EQ(aborts[0].second.reason,
            "ranks make different calls: #12 is all_reduce of 4 on rank 0, but barrier on rank 3");
  say(2, EnteredCall{7, 12, 3, "reduce"});
  EXPECT_THAT(letters, IsEmpty());
}

class CoordinatorMemory : public CoordinatorTest {
 protected:
  void SetUp() override {
    open();
    all_join();
  }
  /// Whether this note is still known: another one is found to differ from it.
  bool is_kept(EnteredCall note) {
    ++note.signature;
    say(1, std::move(note));
    return !take<AbortGroup>().empty();
  }
};

TEST_F(CoordinatorMemory, NotesOfCallsAreForgotten) {
  constexpr std::uint64_t calls = 20'000;
  for (std::uint64_t i = 1; i <= calls; ++i) say(0, EnteredCall{7, i, 1, "barrier"});
  EXPECT_FALSE(is_kept({7, 1, 1, "barrier"}));
  EXPECT_TRUE(is_kept({7, calls, 1, "barrier"}));
}

TEST_F(CoordinatorMemory, NotesOfOldGroupsAreForgotten) {
  constexpr std::uint64_t groups = 50'000;
  for (std::uint64_t uid = 1; uid <= groups; ++uid) say(0, EnteredCall{uid, 1, 1, "barrier"});
  EXPECT_FALSE(is_kept({1, 1, 1, "barrier"}));
  EXPECT_TRUE(is_kept({groups, 1, 1, "barrier"}));
}

}  // namespace
}  // namespace hymn::test
