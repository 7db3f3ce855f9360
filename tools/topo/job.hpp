// Where the view of `hymn topo` comes from: the job that runs, one imagined, or a machine alone.
#pragma once

#include <string>

#include "hymn/world.hpp"
#include "tools/machine_source.hpp"
#include "tools/topo/view.hpp"

namespace hymn {

/// A view, and the same as JSON (docs/topology.md tells the format).
struct TopoJob {
  TopoView view;
  std::string json;
};

/// All ranks call it; only rank 0 gets the places of all, and so the true view.
TopoJob job_of_world(World& world);

/// `source.hosts` hosts with this many ranks each, 0 for none. Throws BadArguments for more ranks
/// in all than `most_drawn_ranks`.
TopoJob imagine_job(const MachineSource& source, int ranks_per_host);
inline constexpr int most_drawn_ranks = 65536;

}  // namespace hymn
