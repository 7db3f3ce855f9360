// Algorithms forced, forbidden and explained.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/support/rank_test.hpp"

namespace hymn::test {
namespace {

using ::testing::HasSubstr;

// These tests are run with all kinds of HYMN_PATH.
const std::string all_paths = "threads,mpi,mpi_p2p,exchange";

std::vector<int> everybody(const World& world) {
  std::vector<int> ranks;
  for (int rank = 0; rank < world.size(); ++rank) ranks.push_back(rank);
  return ranks;
}

void expect_sum_by(ProcessGroup& group, const std::string& algorithm) {
  std::vector<std::int32_t> values = {group.rank(), 1};
  EXPECT_EQ(group.explain(Request::all_reduce(values, values)).algorithm, algorithm);
  Work work = group.all_reduce_async(values);
  EXPECT_EQ(work.algorithm(), algorithm);
  work.wait();
  const int size = group.size();
  EXPECT_EQ(values, (std::vector<std::int32_t>{size * (size - 1) / 2, size}));
}

RANK_TEST(Selection, AlgorithmsAreForcedAndForbidden) {
  std::vector<float> values(4);
  ProcessGroup free = world.new_group(everybody(world), {.path = all_paths});
  const Explanation plain = free.explain(Request::all_reduce(values, values));
  ProcessGroup forced =
      world.new_group(everybody(world), {.path = all_paths, .algo = "all_reduce_pairwise"});
  expect_sum_by(forced, "all_reduce_pairwise");
  ProcessGroup others =
      world.new_group(everybody(world), {.path = all_paths, .algo = "^" + plain.algorithm});
  EXPECT_NE(others.explain(Request::all_reduce(values, values)).algorithm, plain.algorithm);
  // Collectives that are not named may use any.
  EXPECT_EQ(forced.explain(Request::barrier()).algorithm,
            free.explain(Request::barrier()).algorithm);
}

RANK_TEST(Selection, UnknownAlgorithmsAreRefusedOnAllRanks) {
  for (int turn = 0; turn < 2; ++turn) {
    try {
      world.new_group(everybody(world), {.algo = "all_reduce_abacus"});
      ADD_FAILURE() << "all_reduce_abacus was taken";
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr("GroupOptions.algo='all_reduce_abacus'"));
      EXPECT_THAT(error.what(), HasSubstr("all_reduce_pairwise"));
    }
    EXPECT_THROW(world.new_group(everybody(world), {.algo = "a,,b"}), ConfigError);
  }
  ProcessGroup after = world.new_group(everybody(world));
  after.barrier();
}

RANK_TEST(Selection, MembersMustAskForTheSameAlgorithms) {
  NEEDS_RANKS(2);
  GroupOptions options;
  if (world.rank() == 0) options.algo = "all_reduce_pairwise";
  EXPECT_THROW(world.new_group(everybody(world), options), UsageError);
  world.group().barrier();
}

RANK_TEST(Selection, CandidatesHaveTimes) {
  std::vector<float> values(256);
  ProcessGroup free = world.new_group(everybody(world), {.path = all_paths});
  const Explanation explanation = free.explain(Request::all_reduce(values, values));
  EXPECT_GT(explanation.predicted_us, 0);
  for (const Candidate& candidate : explanation.candidates) {
    if (!candidate.can_run) continue;  // MPI does not reduce for one rank alone
    EXPECT_GE(candidate.predicted_us, explanation.predicted_us);
    EXPECT_EQ(candidate.cost_source, "default table");
  }
}

TEST(Selection, TheWorldsAlgorithmsHoldForItsGroups) {
  on_ranks(
      [](World& world) {
        expect_sum_by(world.group(), "all_reduce_pairwise");
        ProcessGroup inherits = world.new_group(everybody(world));
        expect_sum_by(inherits, "all_reduce_pairwise");
      },
      {.path = all_paths, .algo = "all_reduce_pairwise"});
}

}  // namespace
}  // namespace hymn::test
