// all_gather: everybody shows its block, and takes the others'.
#pragma once

#include "collectives/cuda/pack.hpp"
#include "collectives/cuda/peer_meeting.hpp"

namespace hymn::cuda {

HYMN_KERNEL_BODY void all_gather(const KernelThread& at, const PeerTeam& team,
                                 const PeerCall& call) {
  const PeerMeeting meeting(at, team, call.limit);
  if (!meeting.begin()) return;
  const std::uint64_t packs = packs_in(call.bytes);
  copy_packs(at, meeting.slot(team.rank), static_cast<const std::byte*>(call.input), 0, packs,
             call.bytes);
  if (!meeting.meet(PeerPhase::staged)) return;
  for (unsigned step = 0; step < team.size; ++step) {
    const unsigned rank = (team.rank + step) % team.size;
    copy_packs(at, static_cast<std::byte*>(call.output) + rank * call.bytes, meeting.slot(rank), 0,
               packs, call.bytes);
  }
  meeting.finish();
}

}  // namespace hymn::cuda
