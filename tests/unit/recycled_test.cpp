// Memory that threads keep for the objects that they make next.
#include "base/recycled.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace hymn::test {
namespace {

using Block = std::array<std::byte, 1000>;
using Blocks = std::vector<std::shared_ptr<Block>>;

std::shared_ptr<Block> make() { return std::allocate_shared<Block>(RecyclingAllocator<Block>()); }

TEST(Recycled, TheNextOneTakesWhatHasEnded) {
  if (sanitized) GTEST_SKIP() << "a sanitizer is to see what is used after its end";
  const void* const first = make().get();
  EXPECT_EQ(make().get(), first);
  const auto kept = make();
  EXPECT_NE(make().get(), kept.get());
}

TEST(Recycled, ThoseThatLiveAreApart) {
  Blocks all;
  for (int round = 0; round < 3; ++round) {
    std::set<const void*> places;
    for (int i = 0; i < 500; ++i) places.insert(all.emplace_back(make()).get());
    EXPECT_EQ(places.size(), 500u);
    all.clear();
  }
}

TEST(Recycled, AnotherThreadMayEndThem) {
  Blocks here;
  Blocks there;
  for (int i = 0; i < 100; ++i) here.push_back(make());
  std::thread([&] {
    here.clear();
    for (int i = 0; i < 100; ++i) there.push_back(make());
  }).join();  // and so has what it kept
  for (const auto& block : there) block->fill(std::byte{7});
  there.clear();
  for (int i = 0; i < 100; ++i) here.push_back(make());
  for (const auto& block : here) block->fill(std::byte{8});
}

/// Ends with its thread, before or after what that keeps.
TEST(Recycled, WhatEndsWithItsThreadMayBeLast) {
  std::thread([] {
    static thread_local std::shared_ptr<Block> early;
    early = make();
    make();
    static thread_local std::shared_ptr<Block> late;
    late = make();
  }).join();
}

}  // namespace
}  // namespace hymn::test
