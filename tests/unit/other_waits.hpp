// Waiting until another rank waits: only then does an error tell of that.
#pragma once

#include <array>
#include <chrono>
#include <thread>

#include "control/agent.hpp"
#include "runtime/world/world_state.hpp"

namespace hymn::test {

/// Until that rank waits for others, in a call or in the making of a group, as `world` hears.
inline void await_wait_of(World& world, int rank) {
  const detail::PeerInquiry& inquiry = detail::WorldState::of(world).context().inquiry;
  const auto waits = [&] {
    const auto reports = inquiry.ask({}, std::array{rank}, control::longest_question);
    return !reports.empty() && !reports[0].awaited.ranks.empty() && !reports[0].awaited.tests;
  };
  while (!waits()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace hymn::test
