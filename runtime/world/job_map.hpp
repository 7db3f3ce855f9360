// How the ranks of a job learn where they all are, when their world is made.
//
// Each rank tells all others which host it is on and what it may use there. The lowest rank of a
// host, its leader, looks at the machine and tells the other leaders what kind it is and how its
// ranks lie on it. A machine travels once for each kind, and reaches the other ranks of a host
// through their leader.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "base/meeting.hpp"
#include "runtime/rank/arrival.hpp"
#include "runtime/world/machine_cache.hpp"
#include "topology/placement.hpp"

namespace hymn {

using MachineReader = std::function<std::shared_ptr<const KnownMachine>()>;

/// Collective over the exchange: `arrivals` are those of all ranks. Where a leader cannot read its
/// machine or place its ranks, all ranks throw its error as a ConfigError.
JobMap map_job(Exchange& exchange, std::span<const Arrival> arrivals, const MachineReader& read,
               const Patience& patience);

}  // namespace hymn
