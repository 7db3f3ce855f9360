// A member fails while its group is made by its members alone (local_sync_job.cpp).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tests/mpi/job_runner.hpp"

namespace hymn::test {
namespace {

using ::testing::HasSubstr;

struct Case {
  const char* fate;
  int victim;
};

class LocalSyncFault : public ::testing::TestWithParam<Case> {};

TEST_P(LocalSyncFault, IsNamedByTheOthers) {
  const auto [fate, victim] = GetParam();
  Job job;
  job.start(
      4,
      HYMN_LOCAL_SYNC_JOB " " + std::string(fate) + ":" + std::to_string(victim) + " >>\"$0/out\"",
      "HYMN_TIMEOUT=20 HYMN_LOG_LEVEL=error");
  const std::string output = job.output();
  const std::string told = job.read("out");
  const bool dies = std::string_view(fate) != "absent";
  for (int rank = 0; rank < 4; ++rank) {
    if (dies && rank == victim) {
      EXPECT_EQ(job.status(rank), 128 + SIGKILL) << output;
      continue;
    }
    EXPECT_EQ(job.status(rank), 0) << output << told;
    EXPECT_THAT(told, HasSubstr("rank " + std::to_string(rank) + " has gone on")) << output;
  }
}

// Rank 1 leads the group.
INSTANTIATE_TEST_SUITE_P(, LocalSyncFault,
                         ::testing::Values(Case{"before", 1}, Case{"before", 3}, Case{"waits", 1},
                                           Case{"waits", 3}, Case{"creates", 1}, Case{"creates", 3},
                                           Case{"absent", 1}, Case{"absent", 3}),
                         [](const auto& one) {
                           return one.param.fate + std::string("_") +
                                  std::to_string(one.param.victim);
                         });

}  // namespace
}  // namespace hymn::test
