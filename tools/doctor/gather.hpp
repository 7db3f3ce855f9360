// Gathers what one rank, and one host, have to say. Nothing here waits for other ranks.
#pragma once

#include <cstdint>
#include <string>

#include "tools/doctor/facts.hpp"

namespace hymn {

/// UUID, else PCI address, else index: the same on all ranks that see the GPU.
std::string gpu_id(const Gpu& gpu);

/// Never throws: what cannot be looked at is told by RankFacts::incomplete.
RankFacts gather_rank(int rank, ThreadLevel granted);

/// By one rank of each host. `used` is that rank's facts, which learn what was incomplete.
HostFacts gather_host(int ranks_here, RankFacts& used);

/// Tries a segment, but never takes more than half of what can be had.
void gather_segment(std::uint64_t bytes, RankFacts& facts);

}  // namespace hymn
