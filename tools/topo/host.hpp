// The picture of one host: processors above, GPUs and network below their packages.
#pragma once

#include "tools/topo/layout.hpp"

namespace hymn {

/// At the origin. Without a title it has no head. `notes` gets what is to be said below the
/// picture.
Block host_block(const Machine& machine, const std::vector<RankPlace>& places, std::string title,
                 double least_width, std::vector<std::string>& notes);

}  // namespace hymn
