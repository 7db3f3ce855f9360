// What the tools ask of a world beside its public interface.
#pragma once

#include "base/config.hpp"
#include "base/private.hpp"
#include "hymn/world.hpp"
#include "topology/placement.hpp"

namespace hymn {

/// As long as the world lives.
HYMN_PRIVATE const JobMap& job_map_of(const World& world);
HYMN_PRIVATE const Config& config_of(const World& world);

}  // namespace hymn
