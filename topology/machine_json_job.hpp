// The map of a job as JSON.
#pragma once

#include <string>

#include "topology/placement.hpp"

namespace hymn {

/// docs/topology.md tells the format. Machines are written as to_json does.
std::string job_map_to_json(const JobMap& map);

}  // namespace hymn
