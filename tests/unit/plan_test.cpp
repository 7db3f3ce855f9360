// Index arithmetic: slices cover exactly, and everybody hears from everybody.
#include "collectives/plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace hymn::test {
namespace {

TEST(EvenSlice, CoversEverythingOnceInOrder) {
  for (int parts = 1; parts <= 33; ++parts) {
    for (std::size_t total = 0; total <= 200; ++total) {
      std::size_t next = 0;
      std::size_t shortest = total;
      std::size_t longest = 0;
      for (int index = 0; index < parts; ++index) {
        const Slice slice = even_slice(total, index, parts);
        ASSERT_EQ(slice.offset, next) << total << " in " << parts << ", slice " << index;
        next += slice.count;
        shortest = std::min(shortest, slice.count);
        longest = std::max(longest, slice.count);
      }
      ASSERT_EQ(next, total) << parts << " parts";
      ASSERT_LE(longest - shortest, 1u) << total << " in " << parts;
    }
  }
}

TEST(EvenSlice, OfVeryManyElements) {
  for (const std::size_t total : {(std::size_t{1} << 31) + 1, (std::size_t{1} << 40) + 5,
                                  std::numeric_limits<std::size_t>::max()}) {
    std::size_t next = 0;
    for (int index = 0; index < 7; ++index) {
      const Slice slice = even_slice(total, index, 7);
      EXPECT_EQ(slice.offset, next);
      next += slice.count;
    }
    EXPECT_EQ(next, total);
  }
}

TEST(Dissemination, EveryoneIsToldByWhomItHears) {
  for (int size = 1; size <= 33; ++size)
    for (unsigned round = 0; round < dissemination_rounds(size); ++round)
      for (int rank = 0; rank < size; ++rank) {
        const int to = dissemination_to(rank, size, round);
        ASSERT_GE(to, 0);
        ASSERT_LT(to, size);
        ASSERT_NE(to, rank) << size << " ranks, round " << round;
        ASSERT_EQ(dissemination_from(to, size, round), rank) << size << " ranks, round " << round;
      }
}

TEST(Dissemination, ReachesEverybodyAndNotARoundSooner) {
  for (int size = 1; size <= 33; ++size) {
    const auto ranks = static_cast<std::size_t>(size);
    const unsigned rounds = dissemination_rounds(size);
    // knows[a][b]: a has heard, through others, that b has arrived.
    std::vector<std::vector<bool>> knows(ranks, std::vector<bool>(ranks, false));
    for (std::size_t rank = 0; rank < ranks; ++rank) knows[rank][rank] = true;
    const auto all_know = [&] {
      return std::all_of(knows.begin(), knows.end(), [](const std::vector<bool>& heard) {
        return std::all_of(heard.begin(), heard.end(), [](bool known) { return known; });
      });
    };
    for (unsigned round = 0; round < rounds; ++round) {
      EXPECT_FALSE(all_know()) << size << " ranks before round " << round;
      const auto before = knows;
      for (int rank = 0; rank < size; ++rank) {
        const auto from = static_cast<std::size_t>(dissemination_from(rank, size, round));
        for (std::size_t other = 0; other < ranks; ++other)
          if (before[from][other]) knows[static_cast<std::size_t>(rank)][other] = true;
      }
    }
    EXPECT_TRUE(all_know()) << size << " ranks";
  }
}

TEST(Dissemination, OfVeryManyRanks) {
  constexpr int size = std::numeric_limits<int>::max();
  EXPECT_EQ(dissemination_rounds(size), 31u);
  EXPECT_EQ(dissemination_to(size - 1, size, 30), (1 << 30) - 1);
  EXPECT_EQ(dissemination_from((1 << 30) - 1, size, 30), size - 1);
}

}  // namespace
}  // namespace hymn::test
