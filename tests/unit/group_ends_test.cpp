// What a mechanism sees, and does, when groups end or are given up.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "p2p/threads/thread_hub.hpp"
#include "runtime/world/world_state.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

/// Carries nothing.
class Watching final : public Mechanism {
 public:
  struct Hooks {
    std::function<void()> closed = [] {};
    std::atomic<bool> is_shut_down = false;
    std::atomic<WorldEnd> end = WorldEnd::clean;
    std::atomic<bool> is_gone = false;
  };
  explicit Watching(Hooks& hooks) : hooks_(hooks) {}
  ~Watching() override { hooks_.is_gone = true; }
  void open(NewGroup&, std::span<const Word>, std::span<const Word>) override {}
  void close(const Membership&, bool) override { hooks_.closed(); }
  void shut_down(WorldEnd end) override {
    hooks_.is_shut_down = true;
    hooks_.end = end;
  }

 private:
  Hooks& hooks_;
};

World world_with(Watching::Hooks& hooks, const std::shared_ptr<ThreadHub>& hub, int rank) {
  detail::WorldParts parts({});
  parts.exchange = std::make_shared<ThreadExchange>(hub, rank);
  parts.mechanisms.push_back(std::make_unique<Watching>(hooks));
  return World(detail::WorldState::make(std::move(parts)));
}

// One with a tag holds the world, which holds it.
TEST(GroupEnds, AWorldEndsEvenWhereItsGroupsCannotEndWell) {
  Watching::Hooks hooks;
  hooks.closed = [] { throw BackendError("no group can end", "toy", 1); };
  {
    World world = world_with(hooks, std::make_shared<ThreadHub>(1), 0);
    EXPECT_TRUE(world.new_group({0}, {.tag = "kept"}).is_member());
    EXPECT_THROW(world.destroy(), BackendError);
    EXPECT_TRUE(hooks.is_shut_down);
    EXPECT_NE(hooks.end, WorldEnd::clean);
  }
  EXPECT_TRUE(hooks.is_gone);
}

// What other mechanisms share with other members is let go of even so.
TEST(GroupEnds, OneThatFailsKeepsNoOtherFromClosing) {
  std::array<Watching::Hooks, 2> hooks;
  int closed = 0;
  hooks[0].closed = [] { throw BackendError("no group can end", "toy", 1); };
  hooks[1].closed = [&] { ++closed; };
  detail::WorldParts parts({});
  parts.exchange = std::make_shared<ThreadExchange>(std::make_shared<ThreadHub>(1), 0);
  for (Watching::Hooks& each : hooks) parts.mechanisms.push_back(std::make_unique<Watching>(each));
  World world(detail::WorldState::make(std::move(parts)));
  ProcessGroup group = world.new_group({0});
  EXPECT_THROW(group.destroy(), BackendError);
  EXPECT_EQ(closed, 1);
  EXPECT_THROW(world.destroy(), BackendError);  // which ends the group of all
}

// Rank 1 comes while rank 0 still finds out who has not: it must not take what was given up.
TEST(GroupEnds, WhatIsGivenUpIsWithdrawnFirst) {
  const auto hub = std::make_shared<ThreadHub>(2);
  std::array<Watching::Hooks, 2> hooks;
  std::atomic<bool> is_given_up{false};
  std::atomic<bool> has_come{false};
  hooks[0].closed = [&] {
    if (is_given_up.exchange(true)) return;
    while (!has_come) std::this_thread::yield();
    std::this_thread::sleep_for(100ms);
  };
  const auto make = [](World& world, Duration limit) {
    return world.new_group({0, 1}, {.init_timeout = limit, .local_sync = true});
  };
  std::thread other([&] {
    World world = world_with(hooks[1], hub, 1);
    while (!is_given_up) std::this_thread::yield();
    has_come = true;
    EXPECT_NO_THROW(make(world, 30s).barrier());
  });
  World world = world_with(hooks[0], hub, 0);
  EXPECT_THROW(make(world, 50ms), TimeoutError);
  EXPECT_NO_THROW(make(world, 30s).barrier());
  world.destroy();
  other.join();
}

}  // namespace
}  // namespace hymn::test
