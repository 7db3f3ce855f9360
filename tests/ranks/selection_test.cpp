// Algorithms forced, forbidden and explained.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/rank_test.hpp"

namespace hymn::test {
namespace {

using ::testing::HasSubstr;

// These tests are run with all kinds of HYMN_PATH.
const std::string all_paths = "threads,mpi,mpi_p2p,exchange";
const std::string with_shm = "shm," + all_paths;

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

RANK_TEST(Selection, UsesAreCountedForEachAlgorithm) {
  ProcessGroup group = world.new_group(everybody(world), {.path = all_paths});
  EXPECT_TRUE(group.uses().empty());
  std::vector<std::int32_t> values(4);
  const auto used = [&group](const Request& request) {
    const Explanation told = group.explain(request);
    for (const AlgorithmUse& use : group.uses())
      if (use.path == told.path && use.algorithm == told.algorithm) return use.count;
    return std::uint64_t{0};
  };
  const Request sum = Request::all_reduce(values, values);
  group.all_reduce(values);
  EXPECT_EQ(used(sum), 1u);
  group.all_reduce_async(values).wait();
  std::vector<std::int32_t> half(2);
  std::vector<std::int32_t> other_half(2);
  const std::vector<BufferView> parts = {half, other_half};
  group.all_reduce_coalesced(parts);
  EXPECT_EQ(used(sum), 3u) << "of coalesced ones what travels together counts once";
  EXPECT_THROW(group.all_reduce(ConstBufferView(values), BufferView()), UsageError);
  EXPECT_EQ(used(sum), 3u) << "what is refused does not";
  EXPECT_EQ(used(Request::barrier()), 0u);
  group.barrier();
  EXPECT_EQ(used(Request::barrier()), 1u);
  EXPECT_EQ(used(sum), 3u);
  EXPECT_EQ(group.uses().size(), 2u);
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

/// Of a world or a group for which "all_reduce_two_shot" has been set.
void expect_two_shot_or_refusal(World& world, ProcessGroup& group) {
  // Only what shares memory has it.
  ProcessGroup free = world.new_group(everybody(world), {.path = with_shm, .algo = "^barrier_mpi"});
  std::vector<std::int32_t> values(4);
  const Explanation plain = free.explain(Request::all_reduce(values, values));
  const bool has_it = std::any_of(
      plain.candidates.begin(), plain.candidates.end(),
      [](const Candidate& candidate) { return candidate.algorithm == "all_reduce_two_shot"; });
  group.barrier();
  if (has_it) {
    expect_sum_by(group, "all_reduce_two_shot");
    return;
  }
  try {
    group.all_reduce(values);
    ADD_FAILURE() << "another algorithm was taken";
  } catch (const UnsupportedError& error) {
    EXPECT_THAT(error.what(), HasSubstr("this group has no all_reduce_two_shot"));
  }
}

RANK_TEST(Selection, AlgorithmsThatAGroupDoesNotHaveMayBeNamed) {
  ProcessGroup forced =
      world.new_group(everybody(world), {.path = with_shm, .algo = "all_reduce_two_shot"});
  expect_two_shot_or_refusal(world, forced);
  ProcessGroup others =
      world.new_group(everybody(world), {.path = with_shm, .algo = "^all_reduce_two_shot"});
  std::vector<std::int32_t> values(4);
  EXPECT_NE(others.explain(Request::all_reduce(values, values)).algorithm, "all_reduce_two_shot");
  others.all_reduce(values);
}

TEST(Selection, AWorldMayNameAlgorithmsThatSomeGroupsDoNotHave) {
  for (const char* algo : {"all_reduce_two_shot", "^all_reduce_two_shot"})
    on_ranks(
        [algo](World& world) {
          if (*algo != '^') expect_two_shot_or_refusal(world, world.group());
          // A group of one shares memory with nobody.
          ProcessGroup alone = world.new_group({0});
          world.group().barrier();
        },
        {.path = with_shm, .algo = algo});
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
