// A rank is killed, ends or is stopped at each point of the making of a world (creation_job.cpp):
// the others hear of exactly that one. CREATION_STRIDE takes every so many-th point only.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <regex>

#include "tests/mpi/job_runner.hpp"

namespace hymn::test {
namespace {

struct VictimCase {
  int ranks;
  int victim;
};

class Creation : public ::testing::TestWithParam<VictimCase> {
 protected:
  /// How many points the victim passes; they are much the same each time.
  static int count_points() {
    Job job;
    job.start(GetParam().ranks,
              fmt::format(HYMN_CREATION_JOB " none {} 0 count", GetParam().victim),
              "HYMN_TIMEOUT=20");
    const std::string output = job.output();
    std::smatch found;
    if (std::regex_search(output, found, std::regex("points: ([0-9]+)")))
      return std::stoi(found[1]);
    ADD_FAILURE() << output;
    return 0;
  }

  static void strike(int point, const std::string& fate) {
    SCOPED_TRACE(fmt::format("of {} ranks rank {}: {} at point {}", GetParam().ranks,
                             GetParam().victim, fate, point));
    Job job;
    job.start(
        GetParam().ranks,
        fmt::format(HYMN_CREATION_JOB " \"$0/told\" {} {} {}", GetParam().victim, point, fate),
        "HYMN_LOG_LEVEL=error");
    const std::string output = job.output();
    for (int rank = 0; rank < GetParam().ranks; ++rank) {
      if (rank == GetParam().victim) continue;
      EXPECT_EQ(job.status(rank), 0) << output;
    }
    if (std::getenv("CREATION_TELL") != nullptr)
      fmt::print("point {}, {}:\n{}\n", point, fate, output);
  }
};

TEST_P(Creation, NamesWhoFailsInIt) {
  const char* const word = std::getenv("CREATION_STRIDE");
  const int stride = word == nullptr ? 1 : std::atoi(word);
  const int points = count_points();
  ASSERT_GT(points, 5) << "the calls of the victim are not counted";
  int jobs = 0;
  // The last is behind all of them.
  for (const char* const fate : {"kill", "exit", "stop"})
    for (int point = jobs % stride; point <= points + 1; point += stride, ++jobs)
      strike(point, fate);
  fmt::print("{} points, {} jobs\n", points, jobs);
}

INSTANTIATE_TEST_SUITE_P(, Creation,
                         ::testing::Values(VictimCase{2, 0}, VictimCase{2, 1}, VictimCase{3, 0},
                                           VictimCase{3, 1}, VictimCase{4, 0}, VictimCase{4, 3}),
                         [](const auto& victim) {
                           return fmt::format("rank_{}_of_{}", victim.param.victim,
                                              victim.param.ranks);
                         });

}  // namespace
}  // namespace hymn::test
