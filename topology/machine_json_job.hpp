// The map of a job as JSON.
#pragma once

#include <string>
#include <vector>

#include "base/private.hpp"
#include "topology/placement.hpp"

namespace hymn {

/// docs/topology.md tells the format. Machines are written as to_json does.
HYMN_PRIVATE std::string job_map_to_json(const JobMap& map);

/// The places of one host's ranks, written as in the map, and back; throws Error when the text is
/// no such.
HYMN_PRIVATE std::string places_to_json(const std::vector<RankPlace>& places);
HYMN_PRIVATE std::vector<RankPlace> places_from_json(const std::string& text);

}  // namespace hymn
