// What a world over an exchange is made of.
#pragma once

#include <memory>

#include "runtime/world/world_state.hpp"

namespace hymn::detail {

/// With the mechanisms of processes; its control plane is still to be given.
WorldParts parts_over(std::shared_ptr<Exchange> exchange, Config config,
                      const WorldOptions& options);

/// How long all ranks may take to come.
Timeout init_limit(const WorldOptions& options, const Config& config);

}  // namespace hymn::detail
