// broadcast: the root shows its data, and the others take it. All wait for all nevertheless: so
// everybody knows when slots may be written again.
#pragma once

#include "collectives/cuda/pack.hpp"
#include "collectives/cuda/peer_meeting.hpp"

namespace hymn::cuda {

HYMN_KERNEL_BODY void broadcast(const KernelThread& at, const PeerTeam& team,
                                const PeerCall& call) {
  const PeerMeeting meeting(at, team, call.limit);
  if (!meeting.begin()) return;
  const std::uint64_t packs = packs_in(call.bytes);
  if (team.rank == call.root)
    copy_packs(at, meeting.slot(team.rank), static_cast<const std::byte*>(call.input), 0, packs,
               call.bytes);
  if (!meeting.meet(PeerPhase::staged)) return;
  if (team.rank != call.root)
    copy_packs(at, static_cast<std::byte*>(call.output), meeting.slot(call.root), 0, packs,
               call.bytes);
  meeting.finish();
}

}  // namespace hymn::cuda
