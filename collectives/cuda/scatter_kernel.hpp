// scatter: the root shows a block for each, and everybody takes its own. All wait for all, as in a
// broadcast.
#pragma once

#include "collectives/cuda/peer_blocks.hpp"

namespace hymn::cuda {

HYMN_KERNEL_BODY void scatter(const KernelThread& at, const PeerTeam& team, const PeerCall& call) {
  const PeerMeeting meeting(at, team, call);
  if (!meeting.begin()) return;
  if (team.rank == call.root) stage_blocks(at, meeting, team, call);
  if (!meeting.meet(PeerPhase::staged)) return;
  take_from_root(at, meeting, call, team.rank * block_stride(call.bytes));
  meeting.finish();
}

}  // namespace hymn::cuda
