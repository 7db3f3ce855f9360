// How ranks lie on their hosts.
#include "topology/host.hpp"

#include <gtest/gtest.h>
#include <sched.h>

namespace hymn::test {
namespace {

using Hosts = std::vector<HostRecord>;

TEST(Host, ThisOneIsTheSameEveryTime) {
  const HostRecord record = this_host();
  EXPECT_EQ(record, this_host());
  EXPECT_GE(record.usable_cpus, 1);
  const std::size_t slash = record.host.find('/');
  ASSERT_NE(slash, std::string::npos) << record.host;
  EXPECT_GT(slash, 0u);
  EXPECT_GT(record.host.size(), slash + 1) << "the boot id is missing in " << record.host;
}

TEST(Host, CountsTheCoresThatThisThreadMayUse) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  EXPECT_EQ(this_host().usable_cpus, CPU_COUNT(&all));
  int first = 0;
  while (!CPU_ISSET(first, &all)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(this_host().usable_cpus, 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof all, &all), 0);
}

TEST(Placement, OfOneRank) {
  const Placement placement = place(Hosts{{"a", 4}}, 0);
  EXPECT_EQ(placement.local_rank, 0);
  EXPECT_EQ(placement.local_size, 1);
  EXPECT_EQ(placement.host_count, 1);
  EXPECT_FALSE(placement.crowded);
}

TEST(Placement, OfRanksThatTakeTurns) {
  const Hosts hosts = {{"a", 8}, {"b", 8}, {"a", 8}, {"c", 8}, {"b", 8}, {"a", 8}};
  const std::vector<int> local_ranks = {0, 0, 1, 0, 1, 2};
  const std::vector<int> local_sizes = {3, 2, 3, 1, 2, 3};
  for (int rank = 0; rank < 6; ++rank) {
    const auto i = static_cast<std::size_t>(rank);
    const Placement placement = place(hosts, rank);
    EXPECT_EQ(placement.local_rank, local_ranks[i]) << rank;
    EXPECT_EQ(placement.local_size, local_sizes[i]) << rank;
    EXPECT_EQ(placement.host_count, 3) << rank;
    EXPECT_FALSE(placement.crowded) << rank;
  }
}

TEST(Placement, HostsDifferByTheWholeRecord) {
  // Clones of a machine share a name but no boot id, containers of one machine the other way round.
  const Hosts hosts = {{"node/1", 2}, {"node/2", 2}, {"other/1", 2}};
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(place(hosts, rank).host_count, 3);
    EXPECT_EQ(place(hosts, rank).local_size, 1);
  }
}

TEST(Placement, IsCrowdedWhereRanksOutnumberCores) {
  // Three ranks share two cores on "a", and have three on "b".
  const Hosts hosts = {{"a", 2}, {"b", 3}, {"a", 2}, {"b", 3}, {"a", 2}, {"b", 3}};
  for (int rank = 0; rank < 6; ++rank) EXPECT_EQ(place(hosts, rank).crowded, rank % 2 == 0) << rank;
}

TEST(Placement, RanksBoundToOneCoreEachAreNotCrowded) {
  const Hosts bound(16, {"a", 1});
  EXPECT_FALSE(place(bound, 7).crowded);
  EXPECT_FALSE(place(Hosts(4, {"a", 4}), 0).crowded);
  EXPECT_TRUE(place(Hosts(5, {"a", 4}), 0).crowded);
}

TEST(Placement, CoresOfOtherHostsDoNotHelp) {
  const Hosts hosts = {{"small", 2}, {"small", 2}, {"small", 2}, {"large", 64}};
  EXPECT_TRUE(place(hosts, 0).crowded);
  EXPECT_FALSE(place(hosts, 3).crowded);
}

}  // namespace
}  // namespace hymn::test
