// What a rank shows in its slot, and takes from those of others: all of a buffer, or a block for
// each rank.
#pragma once

#include "collectives/cuda/pack.hpp"
#include "collectives/cuda/peer_meeting.hpp"

namespace hymn::cuda {

/// Blocks begin at multiples of so many bytes of a slot.
HYMN_KERNEL_BODY constexpr std::uint64_t block_stride(std::uint64_t bytes) {
  return packs_in(bytes) * pack_bytes;
}

/// Shows all of the call's input.
HYMN_KERNEL_BODY void stage_all(const KernelThread& at, const PeerMeeting& meeting,
                                const PeerTeam& team, const PeerCall& call) {
  copy_packs(at, meeting.slot(team.rank), static_cast<const std::byte*>(call.input), 0,
             packs_in(call.bytes), call.bytes);
}

/// Shows the blocks of the call's input, one for each rank.
HYMN_KERNEL_BODY void stage_blocks(const KernelThread& at, const PeerMeeting& meeting,
                                   const PeerTeam& team, const PeerCall& call) {
  for (unsigned rank = 0; rank < team.size; ++rank)
    copy_packs(at, meeting.slot(team.rank) + rank * block_stride(call.bytes),
               static_cast<const std::byte*>(call.input) + rank * call.stride, 0,
               packs_in(call.bytes), call.bytes);
}

/// Takes a block from `begin` of each rank's slot. Each begins with its own, so that not all read
/// from the same one.
HYMN_KERNEL_BODY void take_blocks(const KernelThread& at, const PeerMeeting& meeting,
                                  const PeerTeam& team, const PeerCall& call, std::uint64_t begin) {
  for (unsigned step = 0; step < team.size; ++step) {
    const unsigned rank = (team.rank + step) % team.size;
    copy_packs(at, static_cast<std::byte*>(call.output) + rank * call.stride,
               meeting.slot(rank) + begin, 0, packs_in(call.bytes), call.bytes);
  }
}

/// Takes one block, or all of a buffer, from `begin` of the root's slot.
HYMN_KERNEL_BODY void take_from_root(const KernelThread& at, const PeerMeeting& meeting,
                                     const PeerCall& call, std::uint64_t begin) {
  copy_packs(at, static_cast<std::byte*>(call.output), meeting.slot(call.root) + begin, 0,
             packs_in(call.bytes), call.bytes);
}

}  // namespace hymn::cuda
