// What slots in shared memory hold, and whom they serve: for the algorithms over them, and for the
// models of these.
#pragma once

#include <cstddef>

#include "p2p/verdict.hpp"

namespace hymn::shm_limits {

inline constexpr std::size_t one_shot_slot = 4096;
inline constexpr std::size_t swapped_slot = 16384;  ///< of two members
inline constexpr std::size_t near_slot = 512;       ///< of a ring, with all blocks of a scatter
inline constexpr int ring_members = 128;

Verdict fits_slot(std::size_t bytes, std::size_t slot);
Verdict fits_at_once(std::size_t bytes_of_all_blocks);
Verdict can_swap(int members);
Verdict can_have_rings(int members);

}  // namespace hymn::shm_limits
