// What a group says of one algorithm of peers' memory for a call.
#pragma once

#include <string_view>

#include "hymn/hymn.hpp"

namespace hymn::test {

/// Empty where the group does not know the algorithm.
inline Candidate peer_candidate(const ProcessGroup& group, const Request& request,
                                std::string_view algorithm) {
  for (const Candidate& each : group.explain(request).candidates)
    if (each.path == "cuda_p2p" && each.algorithm == algorithm) return each;
  return {};
}

}  // namespace hymn::test
