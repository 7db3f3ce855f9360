// Collectives of groups on several hosts: inside each host by shared memory, between hosts by
// messages of a few leaders on each, piece by piece, so that both go on at once.
#pragma once

#include "collectives/hierarchical/hierarchy.hpp"

namespace hymn {

/// all_reduce, reduce_scatter, all_gather, broadcast, reduce, scan, exscan, barrier. `refusal`: why
/// this group cannot use them; then the parts may be empty.
std::unique_ptr<Algorithm> make_hierarchical(HierarchyParts parts, std::string refusal);

}  // namespace hymn
