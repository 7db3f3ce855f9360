// reduce: everybody shows its input, and the root folds what all have shown. All wait for all, as
// in a broadcast.
#pragma once

#include "collectives/cuda/fold_pack.hpp"
#include "collectives/cuda/peer_blocks.hpp"

namespace hymn::cuda {

template <class Reduction>
HYMN_KERNEL_BODY void reduce(const KernelThread& at, const PeerTeam& team, const PeerCall& call) {
  const PeerMeeting meeting(at, team, call);
  if (!meeting.begin()) return;
  stage_all(at, meeting, team, call);
  if (!meeting.meet(PeerPhase::staged)) return;
  if (team.rank == call.root)
    fold_packs<Reduction>(at, meeting, team.size, 0, call.output, call.bytes);
  meeting.finish();
}

}  // namespace hymn::cuda
