// Where ranks lie on a machine, which GPUs they get, and how a group is summarised.
#include "topology/placement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hymn/error.hpp"
#include "tests/support/machines.hpp"

namespace hymn::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<RankRecord> ranks_on(const std::vector<CpuSet>& masks) {
  std::vector<RankRecord> records;
  for (const CpuSet& mask : masks)
    records.push_back({.rank = static_cast<int>(records.size()), .cpus = mask});
  return records;
}

/// `count` ranks that may all run on `cpus`.
std::vector<RankRecord> ranks_on(int count, const CpuSet& cpus) {
  return ranks_on(std::vector(static_cast<std::size_t>(count), cpus));
}

template <class Member>
std::vector<int> each(const std::vector<RankPlace>& places, Member RankPlace::* member) {
  std::vector<int> values;
  for (const RankPlace& place : places) values.push_back(place.*member);
  return values;
}

std::vector<int> gpus_of(const Machine& machine, const std::vector<RankRecord>& records) {
  return each(place_on_host(machine, records), &RankPlace::gpu);
}

HostSummary summary_of(const Machine& machine, const std::vector<RankRecord>& records) {
  return summarise(machine, 0, place_on_host(machine, records));
}

// --- Places

TEST(Placement, OfOneRank) {
  const Machine box = make_box({.packages = 2, .cores = 2});
  const auto places = place_on_host(box, std::vector<RankRecord>{{.rank = 7, .cpus = box.cpus}});
  ASSERT_EQ(places.size(), 1u);
  EXPECT_EQ(places[0].rank, 7);
  EXPECT_EQ(places[0].local_rank, 0);
  EXPECT_EQ(places[0].package, -1) << "it spans both";
  EXPECT_EQ(places[0].numa, -1);
  EXPECT_EQ(places[0].gpu, -1);
  EXPECT_EQ(places[0].core_sharers, 1);
}

TEST(Placement, IsInOrderOfRanksWhateverTheyAreGivenIn) {
  const Machine box = make_box({});
  std::vector<RankRecord> records = {{.rank = 9, .cpus = *CpuSet::parse("0")},
                                     {.rank = 2, .cpus = *CpuSet::parse("1")},
                                     {.rank = 4, .cpus = *CpuSet::parse("2")}};
  const auto places = place_on_host(box, records);
  EXPECT_THAT(each(places, &RankPlace::rank), ElementsAre(2, 4, 9));
  EXPECT_THAT(each(places, &RankPlace::local_rank), ElementsAre(0, 1, 2));
  EXPECT_EQ(places[2].cpus, *CpuSet::parse("0"));
  std::swap(records[0], records[2]);
  EXPECT_EQ(place_on_host(box, records), places);
}

TEST(Placement, FindsPackageAndNumaNode) {
  const Machine box = make_box({.packages = 2, .numa_nodes = 2, .cores = 2});  // 0-1 2-3 | 4-5 6-7
  const auto places = place_on_host(
      box, ranks_on({*CpuSet::parse("2-3"), *CpuSet::parse("4-7"), *CpuSet::parse("3-4"),
                     *CpuSet::parse("7"), *CpuSet::parse("6,900")}));
  EXPECT_THAT(each(places, &RankPlace::numa), ElementsAre(1, -1, -1, 3, 3))
      << "a CPU that the machine does not have tells nothing";
  EXPECT_THAT(each(places, &RankPlace::package), ElementsAre(0, 1, -1, 1, 1));
}

TEST(Placement, OfAMachineOfWhichNothingIsKnown) {
  Machine bare;
  const auto places = place_on_host(bare, ranks_on({*CpuSet::parse("0-1"), CpuSet()}));
  EXPECT_THAT(each(places, &RankPlace::package), ElementsAre(-1, -1));
  EXPECT_THAT(each(places, &RankPlace::numa), ElementsAre(-1, -1));
  const HostSummary summary = summarise(bare, 3, places);
  EXPECT_EQ(summary.machine, 3);
  EXPECT_EQ(summary.ranks, 2);
  EXPECT_EQ(summary.packages, 1);
  EXPECT_EQ(summary.cores, 2);
}

TEST(Placement, ARankWithoutAMaskMayUseWhatIsGranted) {
  Machine box = make_box({});
  box.allowed_cpus = CpuSet::range(1, 2);
  EXPECT_EQ(place_on_host(box, ranks_on({CpuSet()}))[0].cpus, CpuSet::range(1, 2));
}

TEST(Placement, CountsWhoSharesACore) {
  const Machine box = make_box({.cores = 4, .threads = 2});  // cores 0-1 2-3 4-5 6-7
  const auto places =
      place_on_host(box, ranks_on({*CpuSet::parse("0"), *CpuSet::parse("1"), *CpuSet::parse("2-5"),
                                   *CpuSet::parse("5-6"), *CpuSet::parse("7")}));
  EXPECT_THAT(each(places, &RankPlace::core_sharers), ElementsAre(2, 2, 2, 3, 2))
      << "hyperthreads of one core are one core";
}

// --- GPUs

TEST(PlacementOfGpus, NearOnesFirst) {
  const Machine box = make_box({.packages = 2, .cores = 2, .gpus = 2});  // GPUs 0 1 | 2 3
  EXPECT_THAT(gpus_of(box, ranks_on({*CpuSet::parse("3"), *CpuSet::parse("0"), *CpuSet::parse("2"),
                                     *CpuSet::parse("1")})),
              ElementsAre(2, 0, 3, 1));
}

TEST(PlacementOfGpus, ByLocalRankWhereRanksAreNotBound) {
  const Machine box = make_box({.packages = 2, .cores = 2, .gpus = 2});
  EXPECT_THAT(gpus_of(box, ranks_on(4, box.cpus)), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(gpus_of(box, ranks_on(2, box.cpus)), ElementsAre(0, 1));
}

TEST(PlacementOfGpus, ThePackageWhereTheNumaNodeHasNone) {
  Machine box = make_box({.packages = 2, .numa_nodes = 2, .cores = 1, .gpus = 1});
  box.gpus[1].numa = 0;  // so node 1 has none; GPUs 0 and 1 are in package 0
  EXPECT_THAT(gpus_of(box, ranks_on({*CpuSet::parse("1")})), ElementsAre(0));
  EXPECT_THAT(gpus_of(box, ranks_on({*CpuSet::parse("1"), *CpuSet::parse("0")})), ElementsAre(1, 0))
      << "the rank near it has the better claim";
}

TEST(PlacementOfGpus, AFreeOneFarAwayIsBetterThanANearOneInUse) {
  const Machine box = make_box({.packages = 2, .cores = 4, .gpus = 2});
  EXPECT_THAT(gpus_of(box, ranks_on(4, *CpuSet::parse("0-3"))), ElementsAre(0, 1, 2, 3));
  // But not where somebody near waits for it.
  EXPECT_THAT(gpus_of(box, ranks_on({*CpuSet::parse("0"), *CpuSet::parse("1"), *CpuSet::parse("2"),
                                     *CpuSet::parse("4"), *CpuSet::parse("5")})),
              ElementsAre(0, 1, 0, 2, 3));
}

TEST(PlacementOfGpus, SharedEvenly) {
  const Machine box = make_box({.cores = 8, .gpus = 2});
  const auto places = place_on_host(box, ranks_on(5, box.cpus));
  EXPECT_THAT(each(places, &RankPlace::gpu), ElementsAre(0, 1, 0, 1, 0));
  EXPECT_THAT(each(places, &RankPlace::gpu_sharers), ElementsAre(3, 2, 3, 2, 3));
  const HostSummary summary = summarise(box, 0, places);
  EXPECT_EQ(summary.gpus, 2);
  EXPECT_EQ(summary.most_sharers, 3);
  EXPECT_EQ(summary.ranks_without_gpu, 0);
}

TEST(PlacementOfGpus, AskedFor) {
  const Machine box = make_box({.cores = 4, .gpus = 4});
  auto records = ranks_on(4, box.cpus);
  records[0].wanted_gpu = 2;
  records[3].wanted_gpu = 2;
  const auto places = place_on_host(box, records);
  EXPECT_THAT(each(places, &RankPlace::gpu), ElementsAre(2, 0, 1, 2))
      << "who has not asked takes one that is free";
  EXPECT_THAT(each(places, &RankPlace::gpu_sharers), ElementsAre(2, 1, 1, 2));
}

TEST(PlacementOfGpus, NotWanted) {
  const Machine box = make_box({.cores = 4, .gpus = 2});
  auto records = ranks_on(3, box.cpus);
  records[0].wants_no_gpu = true;
  const auto places = place_on_host(box, records);
  EXPECT_THAT(each(places, &RankPlace::gpu), ElementsAre(-1, 0, 1));
  EXPECT_EQ(places[0].gpu_sharers, 0);
  EXPECT_EQ(summarise(box, 0, places).ranks_without_gpu, 1);
}

TEST(PlacementOfGpus, NotThere) {
  const Machine box = make_box({.gpus = 2});
  auto records = ranks_on(2, box.cpus);
  records[1].wanted_gpu = 2;
  try {
    place_on_host(box, records);
    FAIL() << "nothing is thrown";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 1"));
    EXPECT_THAT(error.what(), HasSubstr("GPU 2"));
    EXPECT_THAT(error.what(), HasSubstr("HYMN_GPU"));
  }
  EXPECT_THAT(gpus_of(make_box({}), ranks_on(2, CpuSet::range(0, 3))), ElementsAre(-1, -1));
}

// --- Summaries

TEST(Summary, CountsWhatTheRanksLieOn) {
  const Machine box = make_box({.packages = 2, .numa_nodes = 2, .cores = 2, .threads = 2});
  const HostSummary low = summary_of(box, ranks_on({*CpuSet::parse("0-1"), *CpuSet::parse("4")}));
  EXPECT_EQ(low.packages, 1);
  EXPECT_EQ(low.numa_nodes, 2);
  EXPECT_EQ(low.cores, 2);
  const HostSummary wide = summary_of(box, ranks_on(2, box.cpus));
  EXPECT_EQ(wide.packages, 2);
  EXPECT_EQ(wide.numa_nodes, 4);
  EXPECT_EQ(wide.cores, 8);
}

TEST(Summary, IsOversubscribedWhereNotEveryRankCanHaveACore) {
  const Machine box = make_box({.cores = 4, .threads = 2});  // 0-1 2-3 4-5 6-7
  auto oversubscribed = [&](const std::vector<RankRecord>& records) {
    return summary_of(box, records).oversubscribed;
  };
  EXPECT_FALSE(oversubscribed(ranks_on(4, box.cpus)));
  EXPECT_TRUE(oversubscribed(ranks_on(5, box.cpus))) << "eight hardware threads are four cores";
  EXPECT_FALSE(oversubscribed(ranks_on(1, *CpuSet::parse("0"))));
  EXPECT_TRUE(oversubscribed(ranks_on(2, *CpuSet::parse("0"))))
      << "bound to one core, three are idle";
  EXPECT_TRUE(
      oversubscribed(ranks_on({*CpuSet::parse("0"), *CpuSet::parse("1"), *CpuSet::parse("4-7")})));
  EXPECT_FALSE(
      oversubscribed(ranks_on({*CpuSet::parse("0-3"), *CpuSet::parse("0"), *CpuSet::parse("2-5")})))
      << "ranks 0 and 2 can make way";
  EXPECT_TRUE(oversubscribed(ranks_on(
      {*CpuSet::parse("0-3"), *CpuSet::parse("0"), *CpuSet::parse("2"), *CpuSet::parse("4-7")})))
      << "three ranks on two cores";
}

TEST(Summary, OfPartOfAHost) {
  const Machine box = make_box({.cores = 4, .gpus = 2});
  const auto places = place_on_host(box, ranks_on(6, box.cpus));
  const std::vector<RankPlace> some = {places[0], places[2]};
  const HostSummary summary = summarise(box, 0, some);
  EXPECT_EQ(summary.ranks, 2);
  EXPECT_FALSE(summary.oversubscribed) << "the other four are not in the group";
  EXPECT_EQ(summary.gpus, 1);
  EXPECT_EQ(summary.most_sharers, 2) << "the third that uses it is not in the group";
}

TEST(Summary, TellsTheWorstLinkAmongTheGpusInUse) {
  Machine box = make_box({.cores = 4, .gpus = 4});
  box.link(0, 3) = box.link(3, 0) = {GpuLinkKind::system, 10e9, false};
  box.link(1, 2) = {GpuLinkKind::nvswitch, 300e9, std::nullopt};
  const HostSummary all = summary_of(box, ranks_on(4, box.cpus));
  EXPECT_EQ(all.worst_link, GpuLinkKind::system);
  EXPECT_EQ(all.least_bandwidth, 10e9);
  EXPECT_FALSE(all.all_peers);
  const HostSummary three = summary_of(box, ranks_on(3, box.cpus));
  EXPECT_EQ(three.worst_link, GpuLinkKind::nvswitch);
  EXPECT_EQ(three.least_bandwidth, 300e9) << "the slower direction";
  EXPECT_TRUE(three.all_peers) << "what is not known is not lacking";
  const HostSummary one = summary_of(box, ranks_on(1, box.cpus));
  EXPECT_EQ(one.worst_link, GpuLinkKind::self);
  EXPECT_EQ(one.least_bandwidth, 0);
  box.link(0, 1).bandwidth = 0;
  EXPECT_EQ(summary_of(box, ranks_on(4, box.cpus)).least_bandwidth, 0)
      << "the least of several is not known when one is not";
}

// --- Layouts

TEST(Layout, OfUnevenHosts) {
  const Machine good = make_box({.cores = 4, .gpus = 4});
  const Machine bad =
      make_box({.cores = 1, .gpus = 2, .link = {GpuLinkKind::host_bridge, 20e9, false}});
  const Machine none = make_box({.cores = 4});
  const GroupLayout layout{
      .size = 8,
      .hosts = {summary_of(good, ranks_on(4, good.cpus)), summary_of(bad, ranks_on(3, bad.cpus)),
                summary_of(none, ranks_on(1, none.cpus))}};
  EXPECT_EQ(layout.largest_host(), 4);
  EXPECT_EQ(layout.smallest_host(), 1);
  EXPECT_FALSE(layout.one_host());
  EXPECT_TRUE(layout.oversubscribed());
  EXPECT_EQ(layout.ranks_without_gpu(), 1);
  EXPECT_EQ(layout.most_gpu_sharers(), 2);
  EXPECT_EQ(layout.worst_gpu_link(), GpuLinkKind::host_bridge);
  EXPECT_EQ(layout.least_gpu_bandwidth(), 20e9) << "hosts without pairs have no say";
  EXPECT_FALSE(layout.all_gpu_peers());
}

TEST(Layout, OfOneHost) {
  const Machine box = make_box({.cores = 4, .gpus = 2});
  const GroupLayout layout{.size = 2, .hosts = {summary_of(box, ranks_on(2, box.cpus))}};
  EXPECT_TRUE(layout.one_host());
  EXPECT_FALSE(layout.oversubscribed());
  EXPECT_EQ(layout.ranks_without_gpu(), 0);
  EXPECT_EQ(layout.least_gpu_bandwidth(), 400e9);
  EXPECT_TRUE(layout.all_gpu_peers());
}

}  // namespace
}  // namespace hymn::test
