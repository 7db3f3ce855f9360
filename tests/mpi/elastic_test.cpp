// Jobs that lose ranks and go on without them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <regex>
#include <thread>

#include "tests/mpi/job_runner.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class Elastic : public ::testing::Test {
 protected:
  void start(int ranks, const std::string& command) {
    job_.start(ranks, command + " >>\"$0/out\"", "HYMN_TIMEOUT=20 HYMN_LOG_LEVEL=error");
  }
  void expect_survivors(const std::vector<int>& ranks, const std::string& words) {
    const std::string output = job_.output();
    const std::string told = job_.read("out");
    for (const int rank : ranks) {
      EXPECT_EQ(job_.status(rank), 0) << output << told;
      EXPECT_THAT(told, HasSubstr("rank " + std::to_string(rank) + words)) << output;
    }
  }
  Job job_;
};

TEST_F(Elastic, LosesTwoOneAfterTheOther) {
  for (const char* seed : {"1", "2", "3"}) {
    Job job;
    job.start(4, HYMN_SHRINK_JOB " 400 " + std::string(seed) + " 2:100 1:200", "HYMN_TIMEOUT=20");
    const std::string output = job.output();
    for (const int rank : {0, 3}) {
      EXPECT_EQ(job.status(rank), 0) << "seed " << seed << ": " << output;
      EXPECT_THAT(output, HasSubstr("rank " + std::to_string(rank) + ": 2 left"));
    }
    for (const int rank : {1, 2}) EXPECT_EQ(job.status(rank), 128 + SIGKILL) << output;
  }
}

TEST_F(Elastic, LosesTwoAlmostAtOnce) {
  for (const char* seed : {"1", "2", "3", "4"}) {
    Job job;
    job.start(4, HYMN_SHRINK_JOB " 300 " + std::string(seed) + " 0:100 3:100", "HYMN_TIMEOUT=20");
    const std::string output = job.output();
    for (const int rank : {1, 2}) {
      EXPECT_EQ(job.status(rank), 0) << "seed " << seed << ": " << output;
      EXPECT_THAT(output, HasSubstr("rank " + std::to_string(rank) + ": 2 left"));
    }
  }
}

TEST_F(Elastic, LosesAllButOne) {
  start(3, HYMN_SHRINK_JOB " 200 7 0:50 1:100");
  expect_survivors({2}, ": 1 left");
}

TEST_F(Elastic, AMemberDiesWhileAGroupIsMade) {
  start(3, HYMN_MAKING_JOB " dies");
  expect_survivors({0, 2}, " has gone on");
}

// No other thread may call MPI, and MPI keeps the one that may: nobody goes on, and all say why.
TEST_F(Elastic, AMemberDiesWhileAGroupIsMadeAtThreadSingle) {
  for (const char* level : {"single", "serialized"}) {
    Job job;
    job.start(3, HYMN_MAKING_JOB " dies", std::string("HYMN_MPI_THREAD_LEVEL=") + level);
    const std::string output = job.output();
    for (const int rank : {0, 2}) {
      EXPECT_EQ(job.status(rank), 128 + SIGABRT) << output;
      EXPECT_THAT(output, ContainsRegex("hymn\\[" + std::to_string(rank) +
                                        "\\] [a-z]+: the process ends, .*MPI_THREAD_MULTIPLE.*: "
                                        "making the communicator of group 1 .*rank 1 .* is dead"));
    }
  }
}

TEST_F(Elastic, AMemberIsDeadBeforeAGroupIsMade) {
  start(3, HYMN_MAKING_JOB " dead");
  expect_survivors({0, 2}, " has gone on");
}

TEST_F(Elastic, WhoShrinksFirstTellsWhy) {
  start(3, HYMN_MAKING_JOB " told");
  expect_survivors({0, 2}, " has gone on");
}

TEST_F(Elastic, AMemberIsStuckWhileAGroupIsMade) {
  start(3, HYMN_MAKING_JOB " stays");
  expect_survivors({0, 1, 2}, " has gone on");
}

TEST_F(Elastic, AMemberDiesWhileTheLeftMakeAGroup) {
  start(3, HYMN_MAKING_JOB " shrinks");
  expect_survivors({0, 2}, " has gone on");
}

TEST_F(Elastic, AMemberIsStoppedWhenItHasBegunToShrink) {
  start(3, HYMN_MAKING_JOB " stops");
  expect_survivors({0, 2}, " has gone on");
}

TEST_F(Elastic, AMemberDiesWhenTheLeftHaveMadeAGroup) {
  start(3, HYMN_MAKING_JOB " leaves");
  expect_survivors({0, 2}, " has gone on");
}

// What a child of the victim did is not taken for the end of the victim.
TEST_F(Elastic, AMemberThatHasForkedDies) {
  job_.start(2, HYMN_FORKS_TEST " note", "HYMN_TIMEOUT=20");
  const std::string output = job_.output();
  EXPECT_EQ(job_.status(0), 128 + SIGKILL) << output;
  EXPECT_THAT(output, HasSubstr("rank 1 knows"));
}

/// The process of a rank, as the example tells it.
int pid_in(const std::string& told, int rank) {
  std::smatch found;
  const std::regex words("rank " + std::to_string(rank) + " is process ([0-9]+)");
  return std::regex_search(told, found, words) ? std::stoi(found[1]) : 0;
}

TEST_F(Elastic, TheExampleSurvives) {
  start(4, HYMN_ELASTIC_TRAINING);
  for (const int victim : {3, 0}) {
    int pid = 0;
    for (int tries = 0; tries < 4000 && pid == 0; ++tries) {
      std::this_thread::sleep_for(5ms);
      pid = pid_in(job_.read("out"), victim);
    }
    ASSERT_NE(pid, 0);
    std::this_thread::sleep_for(500ms);
    kill(pid, SIGKILL);
  }
  expect_survivors({1, 2}, " of 2: 3.000 x + -1.000");
}

}  // namespace
}  // namespace hymn::test
