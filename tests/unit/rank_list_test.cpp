#include "recorder/rank_list.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace hymn::test {
namespace {

std::vector<int> series(int first, int count, int step) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(first + i * step);
  return ranks;
}

TEST(RankList, IsShort) {
  EXPECT_EQ(pack_ranks({}), "");
  EXPECT_EQ(pack_ranks(std::vector{3}), "3");
  EXPECT_EQ(pack_ranks(std::vector{0, 1, 2, 3, 8}), "0-3,8");
  EXPECT_EQ(pack_ranks(std::vector{0, 8}), "0,8");
  EXPECT_EQ(pack_ranks(series(3, 1000, 8)), "3-7995:8");
  EXPECT_EQ(pack_ranks(std::vector{0, 1, 8, 9, 16, 17}), "0-1,8-9,16-17");
}

TEST(RankList, ComesBackAsItWas) {
  for (const std::vector<int>& ranks :
       {std::vector{0}, std::vector{5, 9}, std::vector{0, 1, 2, 4, 8, 16, 17, 18, 30},
        std::vector{0, 2, 3, 4, 6}, series(0, 4096, 1), series(7, 100, 3), series(9, 10, -1),
        std::vector{8, 5, 2, 3, 4, 7, 6}})
    EXPECT_EQ(unpack_ranks(pack_ranks(ranks)), ranks) << pack_ranks(ranks);
}

TEST(RankList, WhatIsNoneIsRefused) {
  for (const char* text : {"", ",", "1,", "-3", "1-", "1-2:", "1-9:0", "x", "1 2", "0-99999999",
                           "0-1000000,0-1000000"})
    EXPECT_EQ(unpack_ranks(text), std::nullopt) << text;
}

}  // namespace
}  // namespace hymn::test
