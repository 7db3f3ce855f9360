// Slots that hold a block for each rank.
#pragma once

#include "collectives/cuda/pack.hpp"
#include "collectives/cuda/peer_meeting.hpp"

namespace hymn::cuda {

/// Blocks begin at multiples of so many bytes.
HYMN_KERNEL_BODY constexpr std::uint64_t block_stride(std::uint64_t bytes) {
  return packs_in(bytes) * pack_bytes;
}

/// Shows the blocks that follow each other in the call's input, one for each rank.
HYMN_KERNEL_BODY void stage_blocks(const KernelThread& at, const PeerMeeting& meeting,
                                   const PeerTeam& team, const PeerCall& call) {
  for (unsigned rank = 0; rank < team.size; ++rank)
    copy_packs(at, meeting.slot(team.rank) + rank * block_stride(call.bytes),
               static_cast<const std::byte*>(call.input) + rank * call.bytes, 0,
               packs_in(call.bytes), call.bytes);
}

}  // namespace hymn::cuda
