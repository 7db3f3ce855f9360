// all_gather: everybody shows its block, and takes the others'.
#pragma once

#include "collectives/cuda/peer_blocks.hpp"

namespace hymn::cuda {

HYMN_KERNEL_BODY void all_gather(const KernelThread& at, const PeerTeam& team,
                                 const PeerCall& call) {
  const PeerMeeting meeting(at, team, call);
  if (!meeting.begin()) return;
  stage_all(at, meeting, team, call);
  if (!meeting.meet(PeerPhase::staged)) return;
  take_blocks(at, meeting, team, call, 0);
  meeting.finish();
}

}  // namespace hymn::cuda
