#include "runtime/rank/wait_chain.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "recorder/rank_list.hpp"

namespace hymn::detail {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

/// A job in which every rank tells what is written here. Rank 9 asks.
class Job {
 public:
  ProgressReport& idle(int rank) {
    ProgressReport& report = reports_[rank];
    report.rank = rank;
    report.answered = true;
    report.doing = "it has made no call yet";
    return report;
  }
  ProgressReport& waits(int rank, std::vector<int> ranks, std::uint64_t sequence = 0) {
    ProgressReport& report = idle(rank);
    report.awaited = {
        .uid = 7, .sequence = sequence, .ranks = pack_ranks(ranks), .milliseconds = 5000};
    return report;
  }
  WaitChain follow(int rank) { return chains_.follow(reports_.at(rank)); }
  void follow_all(MissingRanks& missing) { follow_waits(missing, chains_, name_of); }
  std::string words(int rank) { return words_of(follow(rank), name_of); }
  Duration elapsed = 10ms;
  int questions = 0;

 private:
  static std::string name_of(int rank) { return "rank " + std::to_string(rank) + " (vm)"; }

  std::map<int, ProgressReport> reports_;
  WaitChains chains_{9, 5s,
                     [this](const Inquiry&, std::span<const int> ranks) {
                       ++questions;
                       std::vector<ProgressReport> reports;
                       for (const int rank : ranks) reports.push_back(reports_.at(rank));
                       return reports;
                     },
                     [this] { return elapsed; }};
};

TEST(WaitChain, LeadsToTheRankThatIsStopped) {
  Job job;
  job.waits(3, {2});
  job.waits(2, {1});
  job.waits(1, {0});
  // What a stopped rank waited for does not matter.
  job.waits(0, {3}).stopped = true;
  EXPECT_EQ(job.words(3),
            "rank 3 waits for rank 2; rank 2 waits for rank 1; rank 1 waits for rank 0, which is "
            "stopped; in the end all wait for rank 0 (vm)");
}

TEST(WaitChain, HasNoLinksWhereARankDoesNotWait) {
  Job job;
  job.idle(1);
  EXPECT_THAT(job.follow(1).links, IsEmpty());
  EXPECT_EQ(job.words(1), "");
  EXPECT_EQ(job.questions, 0);
}

TEST(WaitChain, TellsOfACircleWithTheOneThatAsks) {
  Job job;
  job.waits(2, {1});
  job.waits(1, {9});
  job.waits(9, {2});
  const WaitChain chain = job.follow(2);
  EXPECT_THAT(chain.circle, ElementsAre(9, 2, 1));
  EXPECT_THAT(chain.ends, IsEmpty());
  EXPECT_EQ(words_of(chain, {}),
            "rank 2 waits for rank 1; rank 1 waits for rank 9; deadlock: ranks 1, 2, 9 wait for "
            "each other");
}

TEST(WaitChain, TellsOfACircleThatItOnlyLeadsTo) {
  Job job;
  job.waits(3, {2});
  job.waits(2, {1});
  job.waits(1, {2});
  EXPECT_THAT(job.follow(3).circle, ElementsAre(2, 1));
}

TEST(WaitChain, TakesNoCircleForADeadlockThatMayHaveBegunMeanwhile) {
  Job job;
  job.waits(2, {1});
  job.waits(1, {2}).awaited.milliseconds = 60;
  const WaitChain chain = job.follow(2);
  EXPECT_THAT(chain.circle, IsEmpty());
  EXPECT_THAT(chain.ends, IsEmpty());
  EXPECT_EQ(words_of(chain, {}), "rank 2 waits for rank 1; rank 1 waits for rank 2");
}

// Somebody else may send.
TEST(WaitChain, TakesNoCircleForADeadlockThatAnotherCanEnd) {
  Job job;
  job.waits(1, {0});
  job.waits(0, {1, 2}).awaited.any = true;
  job.idle(2);
  EXPECT_EQ(job.words(1),
            "rank 1 waits for rank 0; rank 0 waits for any of ranks 1, 2; in the end all wait for "
            "rank 2 (vm): it has made no call yet");
}

TEST(WaitChain, TellsOfACircleOfWhichNoWayLeadsOut) {
  Job job;
  job.waits(1, {0});
  job.waits(0, {1, 2}).awaited.any = true;
  job.waits(2, {3});
  job.waits(3, {2, 0}).awaited.any = true;
  EXPECT_THAT(job.follow(1).circle, ElementsAre(0, 1, 2, 3));
}

TEST(WaitChain, TellsOfNoCircleWhereOneOfTheWaysIsNew) {
  Job job;
  job.waits(1, {0});
  job.waits(0, {1, 2}).awaited.any = true;
  job.waits(2, {0}).awaited.milliseconds = 60;
  EXPECT_THAT(job.follow(1).circle, IsEmpty());
}

// Of those that could end it the one that is gone does not.
TEST(WaitChain, OfAReceiveFromAnyLeadsToThoseWhoAreLeft) {
  Job job;
  job.waits(0, {1, 2}).awaited.any = true;
  job.idle(1).state = PeerState::left;
  job.idle(2);
  EXPECT_EQ(job.words(0),
            "rank 0 waits for rank 2; in the end all wait for rank 2 (vm): it has made no call "
            "yet");
}

TEST(WaitChain, OfWhoNeedsAnyOfSeveralIsNoDeadlockWhileOneGoesOn) {
  Job job;
  job.waits(9, {0, 1});
  MissingRanks missing{.ranks = {0, 1}, .words = "waiting", .any = true};
  missing.reports = {job.waits(0, {9}), job.idle(1)};
  job.follow_all(missing);
  EXPECT_EQ(missing.words, "waiting; rank 0 waits for rank 9");
  EXPECT_THAT(missing.ranks, ElementsAre(0, 1));
}

TEST(WaitChain, OfWhoNeedsAnyOfSeveralIsADeadlockWhereNoneDoes) {
  Job job;
  job.waits(9, {0, 1});
  MissingRanks missing{.ranks = {0, 1}, .words = "waiting", .any = true};
  missing.reports = {job.waits(0, {9}), job.waits(1, {0})};
  job.follow_all(missing);
  EXPECT_THAT(missing.words, testing::HasSubstr("deadlock: ranks 0, 1, 9 wait for each other"));
  EXPECT_THAT(missing.ranks, ElementsAre(0, 1, 9));
}

TEST(WaitChain, OfWhoNeedsAnyOfSeveralIsNoDeadlockWhileOneIsNotHeardOf) {
  Job job;
  job.waits(9, {1, 2});
  MissingRanks missing{.ranks = {1}, .any = true, .reports = {job.waits(1, {9})}};
  missing.unheard = {{.rank = 2, .cut_off = true}};
  job.follow_all(missing);
  EXPECT_THAT(missing.words, Not(testing::HasSubstr("deadlock")));
}

TEST(WaitChain, OfWhoNeedsAnyOfSeveralIsADeadlockThoughOneHasLeft) {
  Job job;
  job.waits(9, {1, 2});
  ProgressReport& left = job.idle(2);
  left.state = PeerState::left;
  MissingRanks missing{.ranks = {1, 2}, .any = true, .reports = {job.waits(1, {9}), left}};
  job.follow_all(missing);
  EXPECT_THAT(missing.words, testing::HasSubstr("deadlock: ranks 1, 9 wait for each other"));
}

TEST(WaitChain, WithOneThatHasGivenUpIsNoCircleWhereTheOneThatAsksCameLater) {
  for (const std::uint64_t ended : {1000, 6000}) {
    Job job;
    job.waits(9, {1});
    ProgressReport& gone = job.waits(1, {9});
    gone.state = PeerState::left;
    gone.awaited.milliseconds = 60'000;
    gone.awaited.ended = ended;
    EXPECT_EQ(job.follow(1).circle.empty(), ended > 5000) << ended;
  }
}

// At a limit the first gives up, and has left before the last one asks.
TEST(WaitChain, GoesThroughOneThatHasGivenUpAndLeft) {
  Job job;
  job.waits(9, {1});
  ProgressReport& left = job.waits(0, {9});
  left.state = PeerState::left;
  left.answered = false;
  left.awaited.ended = 50;
  job.waits(1, {0});
  EXPECT_THAT(job.follow(1).circle, ElementsAre(9, 1, 0));
}

TEST(WaitChain, OfThoseWhoDidNotWaitAtOneTimeIsNoCircle) {
  Job job;
  job.waits(9, {1});
  ProgressReport& left = job.waits(0, {9});
  left.state = PeerState::left;
  left.awaited.ended = 4000;
  job.waits(1, {0}).awaited.milliseconds = 3000;
  EXPECT_THAT(job.follow(1).circle, IsEmpty());
}

TEST(WaitChain, EndsAtOneThatHasLeftWithoutHavingWaited) {
  Job job;
  job.waits(1, {0});
  job.waits(0, {1}).state = PeerState::left;
  const WaitChain chain = job.follow(1);
  EXPECT_THAT(chain.circle, IsEmpty());
  ASSERT_EQ(chain.ends.size(), 1u);
  EXPECT_EQ(chain.ends.front().rank, 0);
}

TEST(WaitChain, OfAGroupInTheMakingLeadsToThoseWhoHaveNotCome) {
  Job job;
  job.waits(1, {1, 2, 3, 4}).awaited.makes = true;
  job.idle(2).makes = true;
  job.idle(3).knows_group = true;
  job.idle(4);
  EXPECT_EQ(
      job.words(1),
      "rank 1 waits for rank 4; in the end all wait for rank 4 (vm): it has made no call yet");
}

// Of the first one it is not known what it waits for: no chain leads further than to it.
TEST(WaitChain, NamesAllWhereTheEndIsNotCertain) {
  Job job;
  MissingRanks missing{.ranks = {0, 3}, .words = "missing"};
  missing.reports = {job.waits(0, {0}), job.waits(3, {0})};
  job.follow_all(missing);
  EXPECT_THAT(missing.ranks, ElementsAre(0, 3)) << missing.words;
}

TEST(WaitChain, OfACollectiveLeadsToThoseWhoHaveNotEnteredIt) {
  Job job;
  job.waits(1, {1, 2, 3, 4}, 5);
  job.waits(2, {1, 2, 3, 4}, 5).entered = 5;
  job.idle(3).entered = 4;
  job.idle(4).entered = 4;
  const WaitChain chain = job.follow(1);
  ASSERT_EQ(chain.ends.size(), 2u);
  EXPECT_EQ(words_of(chain, [](int rank) { return "rank " + std::to_string(rank); }),
            "rank 1 waits for ranks 3, 4; in the end all wait for rank 3: it has made no call yet, "
            "and rank 4: it has made no call yet");
}

TEST(WaitChain, OfACollectiveLeadsToOneThatIsStoppedInIt) {
  Job job;
  job.waits(1, {0, 1, 2}, 26);
  for (const int rank : {0, 2}) job.idle(rank).entered = 26;
  job.idle(0).stopped = true;
  job.idle(0).entered = 26;
  EXPECT_EQ(job.words(1),
            "rank 1 waits for rank 0, which is stopped; in the end all wait for rank 0 (vm)");
}

TEST(WaitChain, LeadsThroughOneThatTestsAndIsNoDeadlockThen) {
  Job job;
  job.waits(9, {1});
  job.waits(1, {2}).awaited.tests = true;
  job.idle(2);
  EXPECT_EQ(job.words(1),
            "rank 1 tests a call that needs rank 2; in the end all wait for rank 2 (vm): it has "
            "made no call yet");
  Job other;
  other.waits(9, {1});
  other.waits(1, {9}).awaited.tests = true;
  EXPECT_TRUE(other.follow(1).circle.empty());
  // Nor where its test has met the limit, and it has left for that.
  Job late;
  late.waits(9, {1});
  ProgressReport& left = late.waits(1, {9});
  left.awaited.tests = true;
  left.awaited.ended = 5;
  left.state = PeerState::left;
  EXPECT_TRUE(late.follow(1).circle.empty());
}

// A circle, but for one that may do something else at any time.
TEST(WaitChain, EndsAtOneThatTestsWhereItComesBack) {
  Job job;
  job.waits(9, {2});
  job.waits(2, {1});
  job.waits(1, {0});
  job.waits(0, {9}).awaited.tests = true;
  EXPECT_THAT(job.words(2),
              ::testing::StartsWith("rank 2 waits for rank 1; rank 1 waits for rank 0; "
                                    "in the end all wait for rank 0 (vm)"));
}

TEST(WaitChain, EndsAtACollectiveThatAllHaveEntered) {
  Job job;
  job.waits(2, {1});
  job.waits(1, {1, 3}, 5);
  job.waits(3, {1, 3}, 5).entered = 5;
  const WaitChain chain = job.follow(2);
  ASSERT_EQ(chain.ends.size(), 1u);
  EXPECT_EQ(chain.ends.front().rank, 1);
}

TEST(WaitChain, IsFollowedOnce) {
  Job job;
  job.waits(1, {3});
  job.waits(2, {3});
  job.waits(3, {4});
  job.idle(4);
  EXPECT_EQ(job.follow(1).ends.size(), 1u);
  const WaitChain second = job.follow(2);
  EXPECT_TRUE(second.is_told);
  EXPECT_EQ(words_of(second, {}), "rank 2 waits for rank 3");
}

TEST(WaitChain, IsFollowedOnlySoFar) {
  Job job;
  for (int rank = 10; rank < 500; ++rank) job.waits(rank, {rank + 1});
  job.idle(500);
  const WaitChain chain = job.follow(10);
  EXPECT_EQ(job.questions, 64);
  EXPECT_THAT(chain.ends, IsEmpty());
  EXPECT_THAT(words_of(chain, {}), testing::EndsWith("rank 21 waits for rank 22; … and 52 more "
                                                     "links"));
}

}  // namespace
}  // namespace hymn::detail
