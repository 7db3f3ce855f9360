// Hooks are told what has ended by one thread at a time, in the order in which it ended.
#include "runtime/group/completions.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

namespace hymn::test {
namespace {

using ::testing::ElementsAre;

/// A hook that stays in its first call until it is let go, on a thread of its own.
class SlowHook : public ::testing::Test {
 protected:
  void SetUp() override {
    completions.add_hook([this](const CompletionInfo& info) {
      told.push_back(info.name + " begins");
      is_in_hook = true;
      while (!may_go_on) std::this_thread::yield();
      told.push_back(info.name + " ends");
    });
    note("first");
    thread = std::thread([this] { completions.tell(logger); });
    while (!is_in_hook) std::this_thread::yield();
  }
  void note(const char* name) { completions.note({.name = name, .group = "some"}); }

  Completions completions;
  Logger logger;
  std::vector<std::string> told;
  std::atomic<bool> is_in_hook{false};
  std::atomic<bool> may_go_on{false};
  std::thread thread;
};

TEST_F(SlowHook, IsNotOvertakenByAnotherThread) {
  note("second");
  std::thread other([this] { completions.tell(logger); });
  // With a fault it is in the hook, too, and ends when that may.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  may_go_on = true;
  other.join();
  thread.join();
  EXPECT_THAT(told, ElementsAre("first begins", "first ends", "second begins", "second ends"));
}

TEST_F(SlowHook, IsWaitedForWhenItsGroupEnds) {
  Patience patience{.purpose = "ending a group"};
  patience.meanwhile = [this] { may_go_on = true; };
  completions.close(logger, patience);
  EXPECT_THAT(told, ElementsAre("first begins", "first ends"));
  may_go_on = true;
  thread.join();
}

}  // namespace
}  // namespace hymn::test
