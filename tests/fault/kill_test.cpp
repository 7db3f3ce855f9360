// Ranks killed at random moments: whatever they were at, every survivor ends by itself, says whose
// fault it was, and nothing is left.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <random>

#include "tests/fault/job_run.hpp"
#include "tests/support/shell.hpp"

namespace hymn::test {
namespace {

using nlohmann::json;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

unsigned number_from(const char* name, unsigned otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

struct Kill {
  unsigned seed;
  int ranks;
  int victim;
  int delay_us;
  bool early;  ///< while the world and its groups are made
  std::string activity = "mix";

  explicit Kill(unsigned number) : seed(number) {
    std::mt19937 random(number);
    ranks = 2 + static_cast<int>(random() % 4);
    victim = static_cast<int>(random() % static_cast<unsigned>(ranks));
    delay_us = static_cast<int>(random() % 100000);
    early = random() % 3 == 0;
  }
  static Kill within(std::string activity, unsigned number) {
    Kill made(number);
    made.early = false;
    made.activity = std::move(activity);
    return made;
  }
  std::string describe() const {
    return fmt::format("{}, seed {}: rank {} of {} killed {}, after {} us", activity, seed, victim,
                       ranks, early ? "early" : "late", delay_us);
  }
};

class Killing : public ::testing::Test {
 protected:
  void kill(const Kill& kill);
  void expect_told(const Kill& kill, const Notes& notes);
  static void expect_told_early(const Kill& kill, const json& report);
  std::vector<double> times_;
  int second_hand_ = 0;
};

/// In KiB. What MPI leaves in files is not hymn's.
long memory_in_use() {
  const std::string line =
      "echo $(($(awk '$1 == \"Shmem:\" {print $2}' /proc/meminfo) - $(du -sk /dev/shm | cut -f1)))";
  return std::strtol(run_shell(line).output.c_str(), nullptr, 10);
}

void Killing::expect_told(const Kill& kill, const Notes& notes) {
  const auto death = notes.read(death_note(0));
  ASSERT_TRUE(death.has_value()) << "the victim has not come to be killed";
  for (int rank = 0; rank < kill.ranks; ++rank) {
    if (rank == kill.victim) continue;
    const json report = notes.read(report_note(0, rank)).value_or(json::object());
    SCOPED_TRACE(fmt::format("rank {}: {}", rank, report.dump()));
    EXPECT_FALSE(report.value("failures", true)) << "wrong values";
    if (kill.early) {
      expect_told_early(kill, report);
      continue;
    }
    EXPECT_THAT(report.value("kind", "nothing"), AnyOf("peer", "aborted"));
    EXPECT_EQ(report.value("missing", std::vector<int>{}), std::vector<int>{kill.victim});
    EXPECT_THAT(report.value("text", ""), HasSubstr(fmt::format("rank {} (", kill.victim)));
    times_.push_back(report.value("at_ms", 1e9) - death->get<double>());
  }
}

// Before the ranks have met a limit passes, and who is waited for may itself be kept waiting by
// MPI.
void Killing::expect_told_early(const Kill& kill, const json& report) {
  EXPECT_THAT(report.value("kind", "nothing"), AnyOf("peer", "aborted", "timeout"));
  const auto missing = report.value("missing", std::vector{-1});
  if (report.value("text", "").starts_with("making the world"))
    EXPECT_THAT(missing, AnyOf(IsEmpty(), Contains(kill.victim)));
  else
    EXPECT_THAT(missing, Each(kill.victim));
}

void Killing::kill(const Kill& kill) {
  SCOPED_TRACE(kill.describe());
  const NotesFolder folder;
  JobPlan plan{.program = HYMN_KILLED_JOB, .hosts = {kill.ranks}, .recovery = true};
  plan.words = {std::to_string(kill.seed), std::to_string(kill.victim),
                std::to_string(kill.delay_us), kill.early ? "early" : "late", kill.activity};
  const JobRun run = run_job(plan, folder);
  EXPECT_FALSE(run.hung);
  EXPECT_THAT(run.left, IsEmpty());
  EXPECT_THAT(run.output, ::testing::Not(HasSubstr("Failure\n")));
  expect_told(kill, folder.notes());
  if (HasFailure())
    std::printf("%s; what the job wrote: %s\n", kill.describe().c_str(), run.output.c_str());
}

// TEST_KILLS of them; TEST_SEED repeats one.
TEST_F(Killing, AtRandom) {
  const unsigned first = number_from("TEST_SEED", 1);
  const unsigned last = std::getenv("TEST_SEED") ? first : number_from("TEST_KILLS", 30);
  // A rank that is killed takes the memory that only it has held with it.
  const long before = memory_in_use();
  for (unsigned seed = first; seed <= last; ++seed) kill(Kill(seed));
  EXPECT_LT(memory_in_use() - before, 65536) << "KiB of shared memory are left";
  std::printf("%u kills; heard of: %s\n", last - first + 1, describe_times(times_).c_str());
}

// Of any rank: of the one that has run out as of one that others shadow.
TEST_F(Killing, WithinAJoin) {
  for (const char* const activity : {"join", "shadow"})
    for (unsigned seed = 1; seed <= 5; ++seed) kill(Kill::within(activity, seed));
}

}  // namespace
}  // namespace hymn::test
