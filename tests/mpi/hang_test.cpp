// Real jobs that hang or fail, and what a tired person gets to read: the error, the line of a long
// wait, the verdict on the running job, and that on its dumps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <thread>

#include "tests/mpi/job_runner.hpp"
#include "tests/support/shell.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class Hang : public ::testing::Test {
 protected:
  static constexpr int ranks = 3;

  void start(const std::string& way, const std::string& settings) {
    job_.start(ranks, HYMN_HANG_JOB " " + way + " \"$0\"", settings);
    for (int rank = 0; rank < ranks; ++rank)
      ASSERT_TRUE(job_.wait_for("pid" + std::to_string(rank)));
  }
  int pid_of(int rank) const { return std::atoi(job_.read("pid" + std::to_string(rank)).c_str()); }
  /// What is written by a job whose operations may take so long, and which leaves dumps.
  std::string fail(const std::string& way, const std::string& settings = "") {
    start(way, "HYMN_TIMEOUT=10 HYMN_DUMP=" + job_.word("dump") + " " + settings);
    return job_.output();
  }
  std::string dump_verdict() {
    return run_shell(HYMN_COMMAND " trace " + job_.word("dump") + " 2>&1").output;
  }
  /// What `hymn trace` says of the running job, as soon as that is a fault, and has these words: a
  /// rank may come late.
  std::string live_verdict(int pid, const std::string& words, const std::string& options = "") {
    ShellOutcome live;
    for (int tries = 0; tries < 60; ++tries) {
      live =
          run_shell(HYMN_COMMAND " trace --live " + std::to_string(pid) + " " + options + " 2>&1");
      if (live.exit_code != 0 && live.output.find(words) != std::string::npos) break;
      std::this_thread::sleep_for(500ms);
    }
    EXPECT_EQ(live.exit_code, 1) << live.output;
    return live.output;
  }
  void end_by_force() {
    for (int rank = 0; rank < ranks; ++rank) kill(pid_of(rank), SIGKILL);
    output_ = job_.output();
  }

  void expect_report(const std::string& way) {
    start(way, "HYMN_TIMEOUT=60 HYMN_WAIT_REPORT=6");
    std::this_thread::sleep_for(13s);
    end_by_force();
    const std::string line = "all_reduce #2 of group 'dp#1' has waited ";
    const std::size_t first = output_.find(line);
    ASSERT_NE(first, std::string::npos) << output_;
    EXPECT_EQ(output_.find(line, first + 1), std::string::npos) << output_;
    EXPECT_THAT(output_, ContainsRegex("has waited [0-9.]+ s on rank 0; missing: rank 2 \\(.*, pid "
                                       "[0-9]+\\) has not entered it: its last call, all_reduce #1 "
                                       "of group 'dp#1' at hang_job.cpp:[0-9]+, completed"));
    EXPECT_THAT(output_, ContainsRegex("`hymn trace --live [0-9]+` tells more"));
  }

  /// Of what rank 2 comes too late to: one line, that names it.
  void expect_report_of_late(const std::string& way, const std::string& purpose) {
    start(way, "HYMN_TIMEOUT=60 HYMN_WAIT_REPORT=6");
    std::this_thread::sleep_for(13s);
    job_.write("go", "1");
    output_ = job_.output();
    const std::string line = purpose + " has waited ";
    const std::size_t first = output_.find(line);
    ASSERT_NE(first, std::string::npos) << output_;
    EXPECT_EQ(output_.find(line, first + 1), std::string::npos) << output_;
    EXPECT_THAT(output_, ContainsRegex("has waited [0-9.]+ s on rank 0; missing: rank 2 \\(.*, pid "
                                       "[0-9]+\\) has not arrived: its last call, all_reduce #1 of "
                                       "group 'dp#1'"));
    EXPECT_THAT(output_, Not(HasSubstr("error")));
  }

  Job job_;
  std::string output_;
};

// --- Calls that differ

TEST_F(Hang, WithAnotherCountShowsBothCalls) {
  const std::string output = fail("other_count");
  EXPECT_THAT(output,
              ContainsRegex("rank 2 calls all_reduce of 1000 float32 with sum \\(at hang_job.cpp"));
  EXPECT_THAT(output, ContainsRegex("all_reduce of 100000 float32 with sum \\(at hang_job.cpp"));
  EXPECT_THAT(output, HasSubstr("make the same calls"));
  EXPECT_THAT(dump_verdict(),
              AllOf(HasSubstr("mismatch: the ranks of group 'dp#1' call different collectives as "
                              "#2: rank 2 differs"),
                    // One of the two may not have come before the other saw it.
                    ContainsRegex("(ranks 0-1 call|rank [01] calls) all_reduce of 100000 float32 "
                                  "with sum at hang_job.cpp:[0-9]+"),
                    ContainsRegex("rank 2 calls all_reduce of 1000 float32 with sum at "
                                  "hang_job.cpp:[0-9]+")));
}

TEST_F(Hang, WithAnotherCallOverMpiShowsBothCalls) {
  const std::string output = fail("other_call", "HYMN_PATH=mpi,mpi_p2p");
  EXPECT_THAT(output, HasSubstr("usage error: ranks make different calls: in #2 "));
  EXPECT_THAT(output, ContainsRegex("rank 2 calls barrier \\(at hang_job.cpp"));
  EXPECT_THAT(output, ContainsRegex("calls? all_reduce of 100000 float32 with sum \\(at hang_job"));
  EXPECT_THAT(dump_verdict(), AllOf(HasSubstr("mismatch: "), HasSubstr("rank 2 calls barrier at")));
}

// --- Somebody is missing

TEST_F(Hang, WithARankThatNeverCalls) {
  start("never_calls", "HYMN_TIMEOUT=10 HYMN_DUMP=" + job_.word("dump"));
  for (const std::string name : {"dump0", "dump1", "dump2"}) ASSERT_TRUE(job_.wait_for(name));
  job_.write("go", "1");
  const std::string output = job_.output();
  EXPECT_THAT(output, ContainsRegex("missing: rank 2 \\(.*, pid [0-9]+\\) has not entered it: its "
                                    "last call, all_reduce #1 of group 'dp#1' at hang_job.cpp"));
  EXPECT_THAT(output,
              ContainsRegex("this rank calls all_reduce of 4 float32 with sum \\(at hang_job.cpp"));
  EXPECT_THAT(dump_verdict(), HasSubstr("never entered all_reduce #2 of group 'dp#1'"));
}

TEST_F(Hang, InARingEndsAtTheRankThatIsStopped) {
  start("ring", "HYMN_TIMEOUT=20");
  // Whoever throws ends: the launcher waits for the one that is stopped.
  ASSERT_TRUE(job_.wait_for("failed2"));
  end_by_force();
  EXPECT_THAT(output_, ContainsRegex("recv #1 of group 'dp#1' has not completed on rank 2 .*; rank "
                                     "1 waits for rank 0, which is stopped; in the end all wait "
                                     "for rank 0 "));
}

TEST_F(Hang, IsReportedOnceWhileItLasts) { expect_report("never_calls"); }

TEST_F(Hang, IsReportedOnceWhileSomebodyWaitsForAWork) { expect_report("waits"); }

TEST_F(Hang, IsReportedOnceWhileAGroupIsMade) {
  expect_report_of_late("late_group", "making group 2 of ranks [0, 1, 2]");
}

TEST_F(Hang, IsReportedOnceWhileAGroupShrinks) {
  expect_report_of_late("late_shrink", "shrinking group 'default_pg'");
}

TEST_F(Hang, IsSeenWhileItLasts) {
  start("never_calls", "HYMN_TIMEOUT=60");
  const std::string live = live_verdict(pid_of(1), "ranks 0-1 have waited ");
  EXPECT_THAT(live,
              ContainsRegex("1. missing: rank 2 \\(.*\\) never entered all_reduce #2 of group "
                            "'dp#1'"));
  EXPECT_THAT(live, ContainsRegex("ranks 0-1 have waited [0-9.]+ s at hang_job.cpp:"));
  EXPECT_THAT(live, HasSubstr("looked at: records of 3 of 3 ranks of hang_job"));
  // The same by any other rank, and from what was kept.
  EXPECT_THAT(live_verdict(pid_of(2), "never entered", "--dump " + job_.word("kept")),
              HasSubstr("never entered all_reduce #2"));
  const auto kept = run_shell(HYMN_COMMAND " trace " + job_.word("kept") + " 2>&1");
  EXPECT_EQ(kept.exit_code, 1);
  EXPECT_THAT(kept.output, HasSubstr("never entered all_reduce #2 of group 'dp#1'"));
  end_by_force();
}

TEST_F(Hang, OfAStoppedRankIsSeenWhileItLasts) {
  start("stopped", "HYMN_TIMEOUT=60");
  const std::string live = live_verdict(pid_of(2), "ranks 0-1 have waited ");
  EXPECT_THAT(live, ContainsRegex("1. missing: rank 2 \\(.*\\) is stopped, and never entered "
                                  "all_reduce #2 of group 'dp#1'"));
  EXPECT_THAT(live, HasSubstr("look for who stopped it"));
  end_by_force();
}

TEST_F(Hang, OfTwoMessagesWithDifferentTags) {
  start("other_tag", "HYMN_TIMEOUT=60");
  const std::string words = "rank 1 sends with tag 3, and rank 2 receives with tag 5";
  EXPECT_THAT(live_verdict(pid_of(0), words), HasSubstr(words));
  end_by_force();
}

TEST_F(Hang, OfTwoMessagesWithDifferentTagsIsInTheirDumps) {
  // Whichever of the three comes to its limit first tells it: its own call, or that of rank 2.
  EXPECT_THAT(fail("other_tag"),
              ContainsRegex("recv( #1)? of 1048576 float32 from rank 1 with tag 5[^;]* "
                            "\\(?at hang_job.cpp"));
  EXPECT_THAT(dump_verdict(), HasSubstr("rank 1 sends with tag 3, and rank 2 receives with tag 5"));
}

// --- Failures

TEST_F(Hang, AfterAKillIsToldAsThat) {
  const std::string output = fail("killed");
  EXPECT_THAT(output, ContainsRegex("rank 2 \\(.*\\) is dead: its process was killed"));
  EXPECT_THAT(output, Not(HasSubstr("waited 0.0")));
  const std::string verdict = dump_verdict();
  EXPECT_THAT(verdict, ContainsRegex("1. death: rank 2 \\(.*\\) was killed"));
  EXPECT_THAT(verdict, Not(HasSubstr("\n2. "))) << verdict;
}

TEST_F(Hang, AfterAnExitIsToldAsThat) {
  fail("exits");
  const std::string verdict = dump_verdict();
  EXPECT_THAT(verdict, ContainsRegex("1. death: rank 2 \\(.*\\) has exited with status 7"));
  EXPECT_THAT(verdict, Not(HasSubstr("\n2. "))) << verdict;
}

TEST_F(Hang, AfterAnExceptionOfOneRankHasItsDump) {
  const std::string output = fail("throws");
  EXPECT_TRUE(job_.has("dump2")) << output;
}

TEST_F(Hang, OfAMessageThatIsTooLongIsToldAsThat) {
  const std::string output = fail("too_long");
  EXPECT_THAT(output, HasSubstr("rank 2: usage error: "));
  EXPECT_THAT(dump_verdict(), HasSubstr("is longer than what it is received into"));
}

TEST_F(Hang, AGoodRunSaysNothing) {
  for (int run = 0; run < 3; ++run) EXPECT_EQ(fail("well", "HYMN_LOG_LEVEL=warning"), "");
}

// --- What cannot be looked at

TEST(Live, SaysWhyThereIsNothingToSee) {
  const auto live = [](const std::string& arguments) {
    return run_shell(HYMN_COMMAND " trace --live " + arguments + " 2>&1");
  };
  const auto none = live("999999999");
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.output, HasSubstr("there is no process 999999999 on this host"));
  const auto other = live("$$");
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.output, HasSubstr("has no world of hymn"));
  EXPECT_EQ(live("1 dump").exit_code, 2);
  if (geteuid() != 0) {
    EXPECT_THAT(live("1").output, HasSubstr("may not be inspected by you"));
  }
}

}  // namespace
}  // namespace hymn::test
