// How processes that a launcher has started find each other without MPI.
#pragma once

#include "hymn/standard.hpp"  // first

#include "hymn/exchange.hpp"
#include "hymn/standard_parts.hpp"
#include "hymn/timeout.hpp"

namespace hymn {

/// An Exchange between the ranks of a job, by the variables that its launcher has set: RANK and
/// WORLD_SIZE (hymn run, torchrun), or those of a step of Slurm; docs/worlds.md has them all. They
/// meet in a store, which the launcher keeps (HYMN_STORE), or rank 0 at MASTER_ADDR:MASTER_PORT
/// from the first call until its process ends. HYMN_TOKEN is its secret. There they find each
/// other; what they say then goes by connections between them, at the interface of HYMN_INTERFACE.
///
///     hymn::World world = hymn::World::over(hymn::exchange_from_environment());
///
/// All ranks call it equally often: each call gives an exchange of its own. `timeout`: how long the
/// store is looked for; unset: 300 s. Throws ConfigError for variables that are missing or
/// malformed, NetworkError where there is no such store in time, where another process has the
/// port, and where this rank cannot listen. Thread-safe, as long as nobody changes the environment.
HYMN_API std::shared_ptr<Exchange> exchange_from_environment(Timeout timeout = {});

}  // namespace hymn
