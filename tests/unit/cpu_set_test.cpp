// Sets of CPUs.
#include "topology/cpu_set.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <set>

namespace hymn::test {
namespace {

CpuSet set_of(std::string_view list) {
  const auto set = CpuSet::parse(list);
  EXPECT_TRUE(set) << list;
  return set.value_or(CpuSet());
}

TEST(CpuSet, ReadsWhatTheKernelWrites) {
  EXPECT_EQ(set_of("0-3,8").to_vector(), (std::vector{0, 1, 2, 3, 8}));
  EXPECT_EQ(set_of("5").to_vector(), (std::vector{5}));
  EXPECT_EQ(set_of("63,64,127-128").to_vector(), (std::vector{63, 64, 127, 128}));
  EXPECT_EQ(set_of("65535").to_vector(), (std::vector{65535}));
  EXPECT_EQ(set_of("8,0-3"), set_of("0,1,2,3,8"));
  EXPECT_TRUE(set_of("").empty());
}

TEST(CpuSet, RefusesOtherTexts) {
  for (const char* text : {"a", "-", "-1", "1-", "3-1", "1,", ",1", "1,,2", "1 2", " 1", "1\n",
                           "65536", "0-65536", "99999999999999999999", "0x1", "1-2-3", "1;2"}) {
    EXPECT_FALSE(CpuSet::parse(text)) << text;
  }
}

TEST(CpuSet, WritesWhatItReads) {
  for (const char* text : {"", "0", "0-1", "0-3,8", "1,3,5", "62-65", "0,63-64,65535"}) {
    EXPECT_EQ(set_of(text).to_string(), text);
  }
}

TEST(CpuSet, EqualSetsAreEqualWhateverTheyHeldBefore) {
  CpuSet set = set_of("3,500");
  set.remove(500);
  EXPECT_EQ(set, set_of("3"));
  set.remove(3);
  EXPECT_EQ(set, CpuSet());
  EXPECT_TRUE(set.empty());
  EXPECT_EQ(set.first(), -1);
  EXPECT_EQ(set.count(), 0);
}

TEST(CpuSet, PassesOverCpusThatCannotBe) {
  CpuSet set;
  set.add(-1);
  set.add(CpuSet::max_cpu + 1);
  set.remove(-1);
  set.remove(1 << 30);
  EXPECT_TRUE(set.empty());
  EXPECT_FALSE(set.contains(-1));
  EXPECT_FALSE(set.contains(1 << 30));
  EXPECT_EQ(CpuSet::range(-5, 1), set_of("0-1"));
  EXPECT_TRUE(CpuSet::range(3, 2).empty());
}

/// The algebra against std::set, over sets that end in different words.
TEST(CpuSet, ComputesAsSetsDo) {
  const std::array<std::string, 6> lists = {"", "0-3", "2-70", "64-130", "0,200", "63-64"};
  for (const std::string& left : lists) {
    for (const std::string& right : lists) {
      SCOPED_TRACE(left + " and " + right);
      const CpuSet a = set_of(left);
      const CpuSet b = set_of(right);
      CpuSet either;
      CpuSet both;
      CpuSet rest;
      for (int cpu = 0; cpu < 256; ++cpu) {
        if (a.contains(cpu) || b.contains(cpu)) either.add(cpu);
        if (a.contains(cpu) && b.contains(cpu)) both.add(cpu);
        if (a.contains(cpu) && !b.contains(cpu)) rest.add(cpu);
      }
      EXPECT_EQ(a | b, either);
      EXPECT_EQ(a & b, both);
      EXPECT_EQ(a - b, rest);
      EXPECT_EQ(a.intersects(b), !both.empty());
      EXPECT_EQ(a.includes(b), (b - a).empty());
      EXPECT_EQ((a | b).count(), a.count() + b.count() - both.count());
    }
  }
}

TEST(CpuSet, KnowsTheCpusOfThisThread) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  ASSERT_EQ(sched_getaffinity(0, sizeof mask, &mask), 0);
  const CpuSet set = CpuSet::of_this_thread();
  EXPECT_EQ(set.count(), CPU_COUNT(&mask));
  for (const int cpu : set.to_vector())
    EXPECT_TRUE(CPU_ISSET(static_cast<std::size_t>(cpu), &mask));
}

}  // namespace
}  // namespace hymn::test
