// broadcast: the root shows its data, and the others take it. All wait for all nevertheless: so
// everybody knows when slots may be written again.
#pragma once

#include "collectives/cuda/peer_blocks.hpp"

namespace hymn::cuda {

HYMN_KERNEL_BODY void broadcast(const KernelThread& at, const PeerTeam& team,
                                const PeerCall& call) {
  const PeerMeeting meeting(at, team, call);
  if (!meeting.begin()) return;
  if (team.rank == call.root) stage_all(at, meeting, team, call);
  if (!meeting.meet(PeerPhase::staged)) return;
  if (team.rank != call.root) take_from_root(at, meeting, call, 0);
  meeting.finish();
}

}  // namespace hymn::cuda
