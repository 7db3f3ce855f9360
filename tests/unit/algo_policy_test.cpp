// HYMN_ALGO and the options of the same meaning.
#include "collectives/dispatch/algo_policy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hymn/error.hpp"

namespace hymn::test {
namespace {

using ::testing::HasSubstr;

AlgoPolicy parsed(std::string_view text) { return AlgoPolicy::parse(text, "HYMN_ALGO"); }

TEST(AlgoPolicy, EmptyAllowsAll) {
  EXPECT_TRUE(parsed("").allows(OpType::all_reduce, "all_reduce_mpi"));
  EXPECT_EQ(parsed("").text(), "");
}

TEST(AlgoPolicy, RestrictsOnlyTheCollectivesThatItNames) {
  const AlgoPolicy policy = parsed("all_reduce_mpi,broadcast_pairwise");
  EXPECT_TRUE(policy.allows(OpType::all_reduce, "all_reduce_mpi"));
  EXPECT_FALSE(policy.allows(OpType::all_reduce, "all_reduce_pairwise"));
  EXPECT_TRUE(policy.allows(OpType::broadcast, "broadcast_pairwise"));
  EXPECT_FALSE(policy.allows(OpType::broadcast, "broadcast_mpi"));
  EXPECT_TRUE(policy.allows(OpType::reduce, "reduce_mpi"));
  EXPECT_TRUE(policy.allows(OpType::send, "send_recv"));
}

TEST(AlgoPolicy, ForbidsWhatFollowsTheCaret) {
  const AlgoPolicy policy = parsed("^all_reduce_mpi,barrier_mpi");
  EXPECT_FALSE(policy.allows(OpType::all_reduce, "all_reduce_mpi"));
  EXPECT_TRUE(policy.allows(OpType::all_reduce, "all_reduce_pairwise"));
  EXPECT_FALSE(policy.allows(OpType::barrier, "barrier_mpi"));
  EXPECT_TRUE(policy.allows(OpType::broadcast, "broadcast_mpi"));
}

TEST(AlgoPolicy, DoesNotTakeReduceScatterForReduce) {
  const AlgoPolicy policy = parsed("reduce_scatter_mpi");
  EXPECT_TRUE(policy.allows(OpType::reduce, "reduce_pairwise"));
  EXPECT_FALSE(policy.allows(OpType::reduce_scatter, "reduce_scatter_pairwise"));
  EXPECT_TRUE(parsed("reduce_mpi").allows(OpType::reduce_scatter, "reduce_scatter_pairwise"));
}

TEST(AlgoPolicy, TellsWhatACollectiveIsLeftWith) {
  const AlgoPolicy policy = parsed("all_reduce_mpi,reduce_scatter_mpi,all_reduce_pairwise");
  EXPECT_THAT(policy.only_for(OpType::all_reduce),
              testing::ElementsAre("all_reduce_mpi", "all_reduce_pairwise"));
  EXPECT_THAT(policy.only_for(OpType::reduce), testing::IsEmpty());
  EXPECT_THAT(policy.only_for(OpType::send), testing::IsEmpty());
  EXPECT_THAT(parsed("^all_reduce_mpi").only_for(OpType::all_reduce), testing::IsEmpty());
}

TEST(AlgoPolicy, RefusesMissingNames) {
  for (const char* text : {"^", ",", "all_reduce_mpi,", ",all_reduce_mpi", "a,,b"})
    EXPECT_THROW(parsed(text), ConfigError) << text;
}

TEST(AlgoPolicy, ListsTheNamesThatThereAre) {
  const AlgoPolicy policy = parsed("^all_reduce_mpi,all_reduce_tree");
  EXPECT_NO_THROW(policy.check_names({"all_reduce_mpi", "all_reduce_tree"}));
  try {
    policy.check_names({"all_reduce_mpi", "broadcast_mpi"});
    FAIL() << "all_reduce_tree is not known";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'all_reduce_tree'"));
    EXPECT_THAT(error.what(), HasSubstr("HYMN_ALGO"));
    EXPECT_THAT(error.what(), HasSubstr("all_reduce_mpi, broadcast_mpi"));
  }
}

}  // namespace
}  // namespace hymn::test
