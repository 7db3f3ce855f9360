// What the coordinator tells of ranks that leave, and of what they have said to the end.
#include <gmock/gmock.h>

#include "tests/unit/coordinator_scene.hpp"

namespace hymn::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(CoordinatorTest, LeavingIsFinalAndNoFailure) {
  all_join();
  say(1, Goodbye{{{7, 3, 3}}});
  const auto told = take<News>();
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(told[0].second.news.state, PeerState::left);
  EXPECT_THAT(told[0].second.news.marks, ElementsAre(GroupMark{7, 3, 3}));
  lose(1);
  say(2, News{{.rank = 1, .state = PeerState::dead}});
  say(2, News{{.rank = 1, .state = PeerState::stalled}});
  pass_alive(60s, {0, 2, 3});
  EXPECT_THAT(news(), IsEmpty());
  EXPECT_EQ(coordinator->state_of(1), PeerState::left);
}

TEST_F(CoordinatorTest, LastWordsAreToldAfterOthersHaveSeenTheEnd) {
  all_join();
  say(2, News{{.rank = 1, .state = PeerState::left}});
  letters.clear();
  say(1, Goodbye{{{7, 3, 3}}});
  const auto told = take<News>();
  ASSERT_EQ(told.size(), 3u);
  EXPECT_THAT(told[0].second.news.marks, ElementsAre(GroupMark{7, 3, 3}));
}

TEST_F(CoordinatorTest, AFlushIsAnsweredWhenAllWhoLiveAreHere) {
  for (const int rank : {0, 1, 2}) coordinator->join(rank, now);
  say(1, Flush{4});
  say(0, Flush{9});
  say(1, Goodbye{});
  EXPECT_THAT(take<Flush>(), IsEmpty()) << "rank 3 may be on its way from another coordinator";
  coordinator->join(3, now);
  ASSERT_THAT(letters, SizeIs(3));
  EXPECT_EQ(letters[0].to, 3) << "it hears first what the answers speak of";
  EXPECT_THAT(take<Flush>(), ElementsAre(std::pair(1, Flush{4}), std::pair(0, Flush{9})));
  // Who is gone is not waited for.
  lose(2);
  say(0, Flush{10});
  EXPECT_THAT(take<Flush>(), ElementsAre(std::pair(0, Flush{10})));
}

TEST_F(CoordinatorTest, WhoAsksForAFlushIsForgottenWithItsConnection) {
  for (const int rank : {0, 1, 2}) coordinator->join(rank, now);
  say(1, Flush{4});
  lose(1);
  coordinator->join(1, now);
  coordinator->join(3, now);
  EXPECT_THAT(take<Flush>(), IsEmpty());
  say(1, Flush{4});
  EXPECT_THAT(take<Flush>(), ElementsAre(std::pair(1, Flush{4})));
}

TEST_F(CoordinatorTest, AGoodbyeIsPassedOnOnce) {
  all_join();
  say(1, Goodbye{});
  say(1, Goodbye{});
  EXPECT_EQ(take<News>().size(), 3u);
}

TEST_F(CoordinatorTest, WhoLeavesBecauseOfAnErrorSaysWhoseItWas) {
  all_join();
  say(1, Goodbye{{}, "rank 3 has failed", {3}, true});
  auto told = take<News>();
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(told[0].second.news.state, PeerState::left);
  EXPECT_EQ(told[0].second.news.detail, "it has ended its world because of an error")
      << "the story of rank 3 is its own";
  EXPECT_THAT(told[0].second.news.culprits, ElementsAre(3));
  EXPECT_TRUE(told[0].second.news.broke_off);
  say(2, Goodbye{{}, "out of memory", {2}, true});
  told = take<News>();
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(told[0].second.news.detail,
            "it has ended its world because of an error: out of memory");
  say(0, Goodbye{{}, "rank 3 has failed", {3}});
  told = take<News>();
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(told[0].second.news.detail, "it has ended its world after an error");
  EXPECT_THAT(told[0].second.news.culprits, ElementsAre(3));
  EXPECT_FALSE(told[0].second.news.broke_off);
}

}  // namespace
}  // namespace hymn::test
