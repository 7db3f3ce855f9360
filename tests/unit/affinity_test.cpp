// Shares of CPUs, the place of helper threads, and binding itself.
#include "topology/affinity.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <thread>

#include "base/helper_thread.hpp"
#include "tests/support/machines.hpp"

namespace hymn::test {
namespace {

using ::testing::ElementsAre;

CpuSet cpus(std::string_view list) { return *CpuSet::parse(list); }

std::vector<std::string> shares(const Machine& machine, const std::vector<BindWish>& wishes) {
  std::vector<std::string> texts;
  for (const CpuSet& share : share_out(machine, wishes)) texts.push_back(share.to_string());
  return texts;
}

std::vector<BindWish> alike(int ranks, const CpuSet& mask, BindTo to) {
  return std::vector(static_cast<std::size_t>(ranks), BindWish{mask, to});
}

TEST(ShareOut, DifferentCoresForRanksAlike) {
  const Machine box = make_box({.cores = 4, .threads = 2});
  EXPECT_THAT(shares(box, alike(4, box.cpus, BindTo::core)),
              ElementsAre("0-1", "2-3", "4-5", "6-7"));
  EXPECT_THAT(shares(box, alike(2, box.cpus, BindTo::core)), ElementsAre("0-1", "4-5"));
  EXPECT_THAT(shares(box, alike(1, cpus("3,6"), BindTo::core)), ElementsAre("3"))
      << "never a hardware thread that the rank may not use";
  EXPECT_THAT(shares(box, alike(5, cpus("0-3"), BindTo::core)),
              ElementsAre("0-1", "0-1", "0-1", "2-3", "2-3"));
}

TEST(ShareOut, NumaNodesAndPackages) {
  const Machine box = make_box({.packages = 2, .numa_nodes = 2, .cores = 2});
  EXPECT_THAT(shares(box, alike(4, box.cpus, BindTo::numa)),
              ElementsAre("0-1", "2-3", "4-5", "6-7"));
  EXPECT_THAT(shares(box, alike(4, box.cpus, BindTo::package)),
              ElementsAre("0-3", "0-3", "4-7", "4-7"));
  EXPECT_THAT(shares(box, alike(2, cpus("1-6"), BindTo::package)), ElementsAre("1-3", "4-6"));
}

TEST(ShareOut, WhoIsBoundNarrowerKeepsIt) {
  const Machine box = make_box({.packages = 2, .cores = 2});
  const std::vector<BindWish> wishes = {
      {cpus("1"), BindTo::core}, {cpus("0"), BindTo::package}, {cpus("2-3"), BindTo::numa}};
  EXPECT_THAT(shares(box, wishes), ElementsAre("1", "0", "2-3"));
}

TEST(ShareOut, OnlyWhoAsks) {
  const Machine box = make_box({});
  const std::vector<BindWish> wishes = {
      {box.cpus, BindTo::none}, {box.cpus, BindTo::core}, {box.cpus, BindTo::core}};
  EXPECT_THAT(shares(box, wishes), ElementsAre("0-3", "0", "2"));
}

TEST(ShareOut, UnknownUnitsLeaveThingsAsTheyAre) {
  EXPECT_THAT(shares(Machine(), alike(2, cpus("0-1"), BindTo::core)), ElementsAre("0-1", "0-1"));
  const Machine box = make_box({});
  EXPECT_THAT(shares(box, alike(1, cpus("900-901"), BindTo::core)), ElementsAre("900-901"));
}

TEST(Helper, KeepsOffTheCoreOfItsRanksThread) {
  const Machine box = make_box({.cores = 4, .threads = 2});
  EXPECT_EQ(cpus_for_helper(box, box.cpus, cpus("2"), {}), cpus("0-1,4-7"))
      << "the other hardware thread of that core would slow it down, too";
}

TEST(Helper, KeepsOffTheCoresOfOtherRanks) {
  const Machine box = make_box({.cores = 4});
  EXPECT_EQ(cpus_for_helper(box, box.cpus, cpus("0"), std::vector{cpus("1"), cpus("2")}),
            cpus("3"));
}

TEST(Helper, StaysWithItsRankWhereNoCoreIsLeft) {
  const Machine box = make_box({.cores = 2});
  EXPECT_EQ(cpus_for_helper(box, cpus("0-1"), cpus("0"), std::vector{cpus("1")}), cpus("0"));
  EXPECT_EQ(cpus_for_helper(box, cpus("1"), cpus("1"), std::vector{cpus("0")}), cpus("1"));
}

TEST(Helper, IsFreeWhereNobodyIsBound) {
  const Machine box = make_box({.cores = 4});
  EXPECT_EQ(cpus_for_helper(box, cpus("0-2"), cpus("0-2"), std::vector{cpus("0-2")}), cpus("0-2"));
}

TEST(BindThisThread, BindsItAndNoOther) {
  const CpuSet before = CpuSet::of_this_thread();
  ASSERT_FALSE(before.empty());
  std::thread([&] {
    CpuSet last;
    last.add(before.to_vector().back());
    EXPECT_TRUE(bind_this_thread(last));
    EXPECT_EQ(CpuSet::of_this_thread(), last);
    name_this_thread("hymn-test");
    std::array<char, 16> name{};
    pthread_getname_np(pthread_self(), name.data(), name.size());
    EXPECT_STREQ(name.data(), "hymn-test");
  }).join();
  EXPECT_EQ(CpuSet::of_this_thread(), before);
}

TEST(BindThisThread, SaysWhenItCannot) {
  const CpuSet before = CpuSet::of_this_thread();
  EXPECT_FALSE(bind_this_thread(CpuSet()));
  EXPECT_FALSE(bind_this_thread(CpuSet::range(CpuSet::max_cpu, CpuSet::max_cpu)));
  EXPECT_EQ(CpuSet::of_this_thread(), before);
}

}  // namespace
}  // namespace hymn::test
