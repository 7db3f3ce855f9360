// reduce_scatter: everybody shows its blocks, and folds those for itself.
#pragma once

#include "collectives/cuda/fold_pack.hpp"
#include "collectives/cuda/peer_blocks.hpp"

namespace hymn::cuda {

template <class Reduction>
HYMN_KERNEL_BODY void reduce_scatter(const KernelThread& at, const PeerTeam& team,
                                     const PeerCall& call) {
  const PeerMeeting meeting(at, team, call);
  if (!meeting.begin()) return;
  stage_blocks(at, meeting, team, call);
  if (!meeting.meet(PeerPhase::staged)) return;
  fold_packs<Reduction>(at, meeting, team.size, team.rank * block_stride(call.bytes), call.output,
                        call.bytes);
  meeting.finish();
}

}  // namespace hymn::cuda
