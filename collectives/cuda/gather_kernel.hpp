// gather: everybody shows its block, and the root takes all. All wait for all, as in a broadcast.
#pragma once

#include "collectives/cuda/peer_blocks.hpp"

namespace hymn::cuda {

HYMN_KERNEL_BODY void gather(const KernelThread& at, const PeerTeam& team, const PeerCall& call) {
  const PeerMeeting meeting(at, team, call);
  if (!meeting.begin()) return;
  stage_all(at, meeting, team, call);
  if (!meeting.meet(PeerPhase::staged)) return;
  if (team.rank == call.root) take_blocks(at, meeting, team, call, 0);
  meeting.finish();
}

}  // namespace hymn::cuda
