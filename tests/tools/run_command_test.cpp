// `hymn run`, as its users see it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/shell.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

using hymn::test::run_shell;
using hymn::test::ShellOutcome;
using hymn::test::TemporaryFolder;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

const std::string command = HYMN_COMMAND;
const std::string job = HYMN_RUN_JOB;

ShellOutcome run(const std::string& arguments) {
  return run_shell(command + " run " + arguments + " 2>&1");
}

std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

TEST(HymnRun, StartsAWorldWithoutMpi) {
  for (const int ranks : {1, 2, 3, 7}) {
    const ShellOutcome outcome = run("-n " + std::to_string(ranks) + " " + job + " sum");
    EXPECT_EQ(outcome.exit_code, 0);
    std::vector<std::string> expected;
    for (int rank = 0; rank < ranks; ++rank)
      expected.push_back("rank " + std::to_string(rank) + " of " + std::to_string(ranks) + ": " +
                         std::to_string(ranks * (ranks + 1) / 2));
    EXPECT_EQ(sorted_lines(outcome.output), expected);
  }
}

TEST(HymnRun, WorldsFollowEachOther) {
  const ShellOutcome outcome = run("-n 3 " + job + " worlds");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(sorted_lines(outcome.output), ElementsAre("12", "12", "12"));
}

// Every way in which hymn reaches its ranks is there, as over MPI.
TEST(HymnRun, RanksShareMemory) {
  const ShellOutcome outcome =
      run("-n 2 " + command + " bench all_reduce --min 8 --max 8 --iters 2 --warmup 1 --json");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("\"ranks\":2"), HasSubstr("\"path\":\"shm\""),
                                    HasSubstr("\"wrong\":0")));
}

TEST(HymnRun, LabelsSayWhoHasPrintedWhat) {
  const ShellOutcome outcome =
      run("--label -n 2 sh -c 'echo out; echo error >&2; printf end; exit 0'");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(sorted_lines(outcome.output),
              ElementsAre("[0] end", "[0] error", "[0] out", "[1] end", "[1] error", "[1] out"));
}

TEST(HymnRun, RanksKnowTheirPlace) {
  const ShellOutcome outcome =
      run("-n 2 sh -c 'echo $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE'");
  EXPECT_THAT(sorted_lines(outcome.output), ElementsAre("0 of 2, 0 of 2", "1 of 2, 1 of 2"));
}

TEST(HymnRun, ItsStatusIsThatOfTheFirstFailure) {
  const ShellOutcome exited = run("-n 3 sh -c 'test $RANK = 1 && exit 7; exit 0'");
  EXPECT_EQ(exited.exit_code, 7);
  EXPECT_THAT(sorted_lines(exited.output),
              ElementsAre(AllOf(StartsWith("hymn run: rank 1 (process "),
                                HasSubstr(") has exited with status 7"))));
  const ShellOutcome killed = run("-n 2 sh -c 'test $RANK = 0 && kill -9 $$; exit 0'");
  EXPECT_EQ(killed.exit_code, 128 + SIGKILL);
  EXPECT_THAT(killed.output, HasSubstr("was killed by signal 9 (SIGKILL)"));
}

TEST(HymnRun, WhoIsLeftGoesOnWithoutTheDead) {
  const ShellOutcome outcome = run("-n 3 " + job + " kill 1");
  EXPECT_EQ(outcome.exit_code, 128 + SIGKILL);
  const auto lines = sorted_lines(outcome.output);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "without 1: 3"), 2) << outcome.output;
}

// One fails, the other would wait for ever.
TEST(HymnRun, OthersAreEndedWhenTheirTimeIsOver) {
  const ShellOutcome outcome =
      run("--grace 0.1 -n 2 sh -c 'test $RANK = 0 && exit 3; exec sleep 1000'");
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("1 rank(s) are left after 0.1 s"),
                                    HasSubstr("then rank 1"), HasSubstr("signal 15")));
  const ShellOutcome stubborn =
      run("--grace 0.1 -n 2 sh -c 'trap \"\" TERM; test $RANK = 0 && exit 3; while :; do sleep 1; "
          "done'");
  EXPECT_EQ(stubborn.exit_code, 3);
  EXPECT_THAT(stubborn.output, HasSubstr("signal 9"));
}

/// For a shell: until two ranks have printed a line each.
std::string until_two_lines(const std::string& file) {
  return "until [ \"$(wc -l <" + file + ")\" -eq 2 ]; do sleep 0.05; done; ";
}

TEST(HymnRun, SignalsAreHandedOn) {
  const TemporaryFolder folder;
  const ShellOutcome outcome =
      run_shell(command + " run -n 2 sh -c 'trap \"echo heard $RANK; exit 5\" TERM; echo up; " +
                "while :; do sleep 0.1; done' >" + folder.path("out") + " 2>&1 & " +
                until_two_lines(folder.path("out")) +
                "kill -TERM $!; wait $!; echo status $?; cat " + folder.path("out"));
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("heard 0"), HasSubstr("heard 1"), HasSubstr("status 5")));
}

/// Nobody may have asked how it has ended.
bool has_ended(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string text;
  return !std::getline(file, text) || text.find(") Z ") != std::string::npos;
}

// Not even when it is killed itself.
TEST(HymnRun, NothingIsLeftOfItsRanks) {
  const TemporaryFolder folder;
  const ShellOutcome outcome =
      run_shell(command + " run -n 2 sh -c 'echo $$; exec sleep 1000' >" + folder.path("out") +
                " & " + until_two_lines(folder.path("out")) +
                "kill -KILL $!; wait $! 2>/dev/null; cat " + folder.path("out"));
  const auto pids = sorted_lines(outcome.output);
  ASSERT_THAT(pids, SizeIs(2));
  for (const std::string& pid : pids) {
    for (int tries = 0; tries < 400 && !has_ended(pid); ++tries) ::usleep(50'000);
    EXPECT_TRUE(has_ended(pid)) << pid;
  }
}

TEST(HymnRun, OthersMayGoOnWhenOneHasFailed) {
  const ShellOutcome outcome =
      run("--keep-going --grace 0 -n 2 sh -c 'test $RANK = 1 && exit 3; sleep 0.5; echo here'");
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.output, HasSubstr("here\n"));
}

// Nobody waits for it until a limit.
TEST(HymnRun, WhoEndsBeforeItMakesItsWorldIsNamed) {
  const ShellOutcome outcome =
      run("--grace 60 -n 3 sh -c 'test $RANK = 2 && exit 0; exec " + job + " sum'");
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.output,
              HasSubstr("rank 2 has ended before it came: it has exited with status 0"));
}

TEST(HymnRun, WhatItIsToIgnoreItIgnores) {
  const ShellOutcome outcome =
      run_shell("trap '' HUP; " + command +
                " run -n 2 sh -c 'test $RANK = 0 && kill -HUP $PPID; sleep 0.5; echo here' 2>&1");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.output, "here\nhere\n");
}

TEST(HymnRun, ASeparatorMayStandBeforeTheProgram) {
  EXPECT_EQ(run("-n 1 -- echo -n --x").output, "--x");
  EXPECT_EQ(run("-n 1 echo -- x").output, "-- x\n");
  EXPECT_EQ(run("--grace=1 -l -n 1 -- echo -- x").output, "[0] -- x\n");
}

TEST(HymnRun, NoRoomForWhatRanksPrintIsAFailure) {
  const ShellOutcome outcome = run_shell(command + " run -l -n 1 echo x 2>&1 >/dev/full");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.output, HasSubstr("the output is full"));
}

TEST(HymnRun, WhatCannotBeRunIsTold) {
  const ShellOutcome bogus = run("--bogus -n 2 true");
  EXPECT_EQ(bogus.exit_code, 2);
  EXPECT_THAT(bogus.output, HasSubstr("there is no option --bogus"));
  const ShellOutcome missing = run("-n 2 ./no-such-program");
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.output,
              HasSubstr("'./no-such-program' cannot be run: No such file or directory"));
  const ShellOutcome none = run("-n 2");
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.output, HasSubstr("which program?"));
  EXPECT_EQ(run("-n 0 true").exit_code, 0) << "one for each core";
  EXPECT_EQ(sorted_lines(run("-n 010 echo x").output).size(), 10u) << "no octal number";
  EXPECT_EQ(run("-n -1 true").exit_code, 2);
  EXPECT_EQ(run("-n 5000 true").exit_code, 2);
  EXPECT_EQ(run("--grace -1 -n 1 true").exit_code, 2);
}

/// One that nobody listens at.
int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  EXPECT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), length), 0);
  EXPECT_EQ(::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length), 0);
  ::close(socket);
  return ntohs(address.sin_port);
}

// A program that is started by hand, or by torchrun, where rank 0 keeps the store.
ShellOutcome run_by_hand(int ranks, const std::string& what) {
  const std::string port = std::to_string(free_port());
  std::string all;
  for (int rank = ranks - 1; rank >= 0; --rank)
    all += "HYMN_INIT_TIMEOUT=60 HYMN_BOOTSTRAP=environment RANK=" + std::to_string(rank) +
           " WORLD_SIZE=" + std::to_string(ranks) + " MASTER_ADDR=localhost MASTER_PORT=" + port +
           " " + job + " " + what + " & ";
  return run_shell("{ " + all + "wait; } 2>&1");
}

TEST(HymnRun, IsNotNeeded) {
  EXPECT_THAT(sorted_lines(run_by_hand(2, "sum").output),
              ElementsAre("rank 0 of 2: 3", "rank 1 of 2: 3"));
}

TEST(HymnRun, WantOfDescriptorsIsTold) {
  const ShellOutcome outcome = run_shell("ulimit -n 24; HYMN_INIT_TIMEOUT=2 " + command +
                                         " run -n 32 " + job + " hello 2>&1");
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("who connects to the store at"), HasSubstr("ulimit -n")));
}

// With it goes the store.
TEST(HymnRun, RankZeroMayEndWhileOthersAreStillMakingTheWorld) {
  for (int i = 0; i < 10; ++i)
    ASSERT_THAT(sorted_lines(run_by_hand(3, "hello").output),
                ElementsAre("rank 0", "rank 1", "rank 2"));
}

TEST(HymnRun, VariablesThatAreMissingAreTold) {
  const ShellOutcome outcome =
      run_shell("HYMN_BOOTSTRAP=environment " + command + " bench all_reduce 2>&1");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.output, HasSubstr("no launcher has set WORLD_SIZE"));
}

}  // namespace
