// What the calling thread is to an engine.
#pragma once

#include <cstdint>

#include "rpc/engine.hpp"

namespace hymn::rpc::detail {

/// Deadlines that are further away need not wake who polls.
inline constexpr Duration longest_sleep = std::chrono::milliseconds(250);

/// What this thread does for its engine.
struct Role {
  Engine* engine = nullptr;
  bool runs = false;
};
inline thread_local Role role;
/// The engine that this thread leads, as long as that has this term; threads of programs do, too.
struct Leading {
  Engine* engine = nullptr;
  std::uint64_t term = 0;
  bool awaits = false;  ///< and waits for a call: it runs no jobs
};
inline thread_local Leading leading;
/// Waits that lie on top of each other on this thread's stack: of continuations that wait.
inline thread_local int waits_here = 0;
inline constexpr int most_waits_here = 8;

}  // namespace hymn::rpc::detail
