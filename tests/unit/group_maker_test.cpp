// Groups are made on a thread of their own, and those who need them made wait for that.
#include "runtime/world/group_maker.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "hymn/error.hpp"

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

std::size_t makers_alive() {
  std::size_t count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name == "hymn-groups") ++count;
  }
  return count;
}

TEST(GroupMakers, ThreadsEndWithWhatTheyMake) {
  // Those of other tests are seen for a moment after they were joined.
  while (makers_alive() != 0) std::this_thread::yield();
  GroupMakers makers{CpuSet()};
  std::atomic<bool> may_go_on{false};
  std::atomic<int> begun{0};
  for (int i = 0; i < 10; ++i)
    makers.add([&] {
      ++begun;
      while (!may_go_on) std::this_thread::yield();
    });
  while (begun != 10) std::this_thread::yield();
  EXPECT_EQ(makers_alive(), 10u);
  may_go_on = true;
  EXPECT_TRUE(makers.settle({.purpose = "waiting for groups"}));
  while (makers_alive() != 0) std::this_thread::yield();
}

TEST(GroupMakers, AreNotWithoutNumber) {
  GroupMakers makers{CpuSet()};
  std::atomic<bool> may_go_on{false};
  const auto add = [&] {
    makers.add([&] {
      while (!may_go_on) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
  };
  for (std::size_t i = 0; i < GroupMakers::most; ++i) add();
  EXPECT_THROW(add(), ResourceError);
  may_go_on = true;
  EXPECT_TRUE(makers.settle({.purpose = "waiting for groups"}));
  EXPECT_NO_THROW(add());
  makers.finish();
}

// A program that keeps as many going as there may be waits for one before it begins the next.
TEST(GroupMakers, WhoIsToldThatOneIsMadeMayBeginAnother) {
  GroupMakers makers{CpuSet()};
  std::atomic<bool> may_go_on{false};
  for (std::size_t i = 1; i < GroupMakers::most; ++i)
    makers.add([&] {
      while (!may_go_on) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
  for (int i = 0; i < 100; ++i) {
    const auto made = std::make_shared<std::promise<void>>();
    const auto began = std::chrono::steady_clock::now();
    try {
      makers.add([made] { made->set_value(); });
      made->get_future().wait();
    } catch (const ResourceError&) {
      // The thread before has lost its core in its last steps, for longer than they are waited for.
      EXPECT_GE(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(150));
    }
  }
  may_go_on = true;
  makers.finish();
}

TEST(GroupMakers, MakeAtOnceWhatComesAfterTheirEnd) {
  GroupMakers makers{CpuSet()};
  makers.finish();
  std::thread::id made_by;
  makers.add([&] { made_by = std::this_thread::get_id(); });
  EXPECT_EQ(made_by, std::this_thread::get_id());
}

// Whatever what is made has made itself, from its threads, while others wait for all of it.
TEST(GroupMakers, AreSettledWhenNothingIsAddedAnyMore) {
  for (int i = 0; i < 20; ++i) {
    GroupMakers makers{CpuSet()};
    std::atomic<int> made{0};
    std::function<void(int)> add = [&](int generations) {
      makers.add([&, generations] {
        if (generations > 1) add(generations - 1);
        if (generations > 1) add(generations - 1);
        ++made;
      });
    };
    add(5);
    if (i % 2 == 0) {
      EXPECT_TRUE(makers.settle({.purpose = "waiting for groups"}));
    }
    makers.finish();
    EXPECT_EQ(made, 31);
  }
}

TEST(GroupMaker, MakesAtOnceWhatComesAfterItsEnd) {
  GroupMaker maker{CpuSet()};
  maker.add([] {});
  maker.finish();
  bool is_made = false;
  maker.add([&] { is_made = true; });
  EXPECT_TRUE(is_made);
}

}  // namespace
}  // namespace hymn::test
