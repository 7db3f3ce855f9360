// reduce_scatter: everybody shows its blocks, and folds those for itself.
#pragma once

#include "collectives/cuda/fold_pack.hpp"
#include "collectives/cuda/peer_blocks.hpp"

namespace hymn::cuda {

template <class Reduction>
HYMN_KERNEL_BODY void reduce_scatter(const KernelThread& at, const PeerTeam& team,
                                     const PeerCall& call) {
  const PeerMeeting meeting(at, team, call.limit);
  if (!meeting.begin()) return;
  stage_blocks(at, meeting, team, call);
  meeting.show_factor(call.factor);
  if (!meeting.meet(PeerPhase::staged)) return;
  const std::uint64_t begin = team.rank * block_stride(call.bytes);
  for (std::uint64_t i = at.index(); i < packs_in(call.bytes); i += at.stride()) {
    const Pack result = fold_pack<Reduction>(meeting, team.size, begin + i * pack_bytes);
    copy_some(static_cast<std::byte*>(call.output) + i * pack_bytes, &result,
              bytes_of_pack(i, call.bytes));
  }
  meeting.finish();
}

}  // namespace hymn::cuda
