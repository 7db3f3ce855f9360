// barrier: what the GPUs of all ranks have written before it can be read after it.
#pragma once

#include "collectives/cuda/peer_meeting.hpp"

namespace hymn::cuda {

HYMN_KERNEL_BODY void barrier(const KernelThread& at, const PeerTeam& team, const PeerCall& call) {
  const PeerMeeting meeting(at, team, call);
  if (!meeting.begin()) return;
  if (meeting.meet(PeerPhase::staged)) meeting.finish();
}

}  // namespace hymn::cuda
