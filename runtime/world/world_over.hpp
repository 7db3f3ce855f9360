// What a world over an exchange is made of.
#pragma once

#include <memory>

#include "runtime/world/world_state.hpp"

namespace hymn::detail {

/// With the mechanisms of processes; its control plane is still to be given.
WorldParts parts_over(std::shared_ptr<Exchange> exchange, Config config,
                      const WorldOptions& options);

}  // namespace hymn::detail
