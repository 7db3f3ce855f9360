// A map that forgets what was put in first.
#include "base/recent_map.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hymn::test {
namespace {

std::vector<int> keys_of(const RecentMap<int, std::string>& map) {
  std::vector<int> keys;
  for (const auto& [key, value] : map) keys.push_back(key);
  return keys;
}

TEST(RecentMap, HoldsNoMoreThanItMay) {
  RecentMap<int, std::string> map(3);
  for (int i = 10; i > 0; --i) EXPECT_TRUE(map.try_emplace(i, std::to_string(i)));
  EXPECT_EQ(keys_of(map), (std::vector{3, 2, 1}));
  EXPECT_EQ(map.size(), 3u);
  EXPECT_EQ(map.find(4), nullptr);
  ASSERT_NE(map.find(3), nullptr);
  EXPECT_EQ(*map.find(3), "3");
}

TEST(RecentMap, TheFirstStaysUnlessItIsReplaced) {
  RecentMap<int, std::string> map(2);
  map.try_emplace(1, "a");
  EXPECT_FALSE(map.try_emplace(1, "b"));
  EXPECT_EQ(*map.find(1), "a");
  map.try_emplace(2, "c");
  map.insert_or_assign(1, "d");
  EXPECT_EQ(keys_of(map), (std::vector{2, 1})) << "what is replaced is the latest";
  EXPECT_EQ(*map.find(1), "d");
}

TEST(RecentMap, ForgetsWhatIsErased) {
  RecentMap<int, std::string> map(2);
  map.try_emplace(1, "a");
  EXPECT_TRUE(map.erase(1));
  EXPECT_FALSE(map.erase(1));
  EXPECT_FALSE(map.contains(1));
  map.try_emplace(2, "b");
  map.try_emplace(3, "c");
  EXPECT_EQ(keys_of(map), (std::vector{2, 3}));
}

}  // namespace
}  // namespace hymn::test
