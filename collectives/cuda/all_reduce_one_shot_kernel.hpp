// all_reduce of few bytes: everybody shows its input, and folds what all have shown.
#pragma once

#include "collectives/cuda/fold_pack.hpp"
#include "collectives/cuda/peer_blocks.hpp"

namespace hymn::cuda {

template <class Reduction>
HYMN_KERNEL_BODY void all_reduce_one_shot(const KernelThread& at, const PeerTeam& team,
                                          const PeerCall& call) {
  const PeerMeeting meeting(at, team, call);
  if (!meeting.begin()) return;
  stage_all(at, meeting, team, call);
  if (!meeting.meet(PeerPhase::staged)) return;
  fold_packs<Reduction>(at, meeting, team.size, 0, call.output, call.bytes);
  meeting.finish();
}

}  // namespace hymn::cuda
