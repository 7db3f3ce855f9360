// Groups are made on a thread of their own, and those who need them made wait for that.
#include "runtime/world/group_maker.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace hymn::test {
namespace {

TEST(GroupMaker, IsNotSettledWhileOneIsBeingMade) {
  std::atomic<bool> is_begun{false};
  std::atomic<bool> may_go_on{false};
  std::atomic<bool> is_made{false};
  GroupMaker maker{CpuSet()};
  maker.add([&] {
    is_begun = true;
    while (!may_go_on) std::this_thread::yield();
    is_made = true;
  });
  while (!is_begun) std::this_thread::yield();
  Patience patience{.purpose = "waiting for groups"};
  patience.meanwhile = [&] { may_go_on = true; };
  EXPECT_TRUE(maker.settle(patience));
  EXPECT_TRUE(is_made);
  may_go_on = true;
}

TEST(GroupMakers, NothingWaitsForWhatWasAddedBefore) {
  std::atomic<bool> may_go_on{false};
  std::atomic<int> made{0};
  GroupMakers makers{CpuSet()};
  for (int i = 0; i < 3; ++i)
    makers.add([&] {
      while (!may_go_on) std::this_thread::yield();
      ++made;
    });
  makers.add([&] { may_go_on = true; });
  EXPECT_TRUE(makers.settle({.purpose = "waiting for groups"}));
  EXPECT_EQ(made, 3);
  makers.finish();
}

}  // namespace
}  // namespace hymn::test
