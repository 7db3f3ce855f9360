// Ranks as threads that pretend to be on several hosts.
#pragma once

#include <functional>
#include <string>

#include "hymn/hymn.hpp"

namespace hymn::test {

/// Runs `body` on one rank for each place of the layout "0,0,1": the number of its host.
/// Throws what run_ranks throws.
void run_on_hosts(const std::string& layout, const std::function<void(World&)>& body,
                  const WorldOptions& options = {});

}  // namespace hymn::test
