// Two ranks whose time stands still: worlds over an in-process Exchange with a clock of the test's.
#pragma once

#include <array>
#include <future>
#include <memory>

#include "hymn/world.hpp"
#include "p2p/threads/thread_hub.hpp"
#include "runtime/world/world_state.hpp"
#include "tests/unit/fake_clock.hpp"

namespace hymn::test {

/// Nothing here waits for the other rank but what is made together, so one thread can play both.
class FakePair {
 public:
  explicit FakePair(const Config& config = {}, const WorldOptions& options = {}) {
    const auto hub = std::make_shared<ThreadHub>(2);
    const auto worlds = together([&](int rank) {
      detail::WorldParts parts(config, options);
      parts.exchange = std::make_shared<ThreadExchange>(hub, rank);
      parts.clock = &clock;
      return std::make_shared<World>(detail::WorldState::make(std::move(parts)));
    });
    worlds_ = worlds;
  }

  FakeClock clock;

  World& world(int rank) { return *worlds_[static_cast<std::size_t>(rank)]; }
  ProcessGroup& group(int rank) { return world(rank).group(); }
  /// A group of both, as each of them sees it.
  std::array<ProcessGroup, 2> new_groups(const GroupOptions& options = {}) {
    return together([&](int rank) { return world(rank).new_group({0, 1}, options); });
  }

 private:
  template <class Call>
  static auto together(const Call& call) -> std::array<decltype(call(0)), 2> {
    auto other = std::async(std::launch::async, [&call] { return call(1); });
    auto first = call(0);
    return {std::move(first), other.get()};
  }

  std::array<std::shared_ptr<World>, 2> worlds_;
};

}  // namespace hymn::test
