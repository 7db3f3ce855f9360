// all_to_all: everybody shows a block for each, and takes those that are for itself.
#pragma once

#include "collectives/cuda/peer_blocks.hpp"

namespace hymn::cuda {

HYMN_KERNEL_BODY void all_to_all(const KernelThread& at, const PeerTeam& team,
                                 const PeerCall& call) {
  const PeerMeeting meeting(at, team, call);
  if (!meeting.begin()) return;
  stage_blocks(at, meeting, team, call);
  if (!meeting.meet(PeerPhase::staged)) return;
  take_blocks(at, meeting, team, call, team.rank * block_stride(call.bytes));
  meeting.finish();
}

}  // namespace hymn::cuda
