// all_reduce of few bytes: everybody shows its input, and folds what all have shown.
#pragma once

#include "collectives/cuda/fold_pack.hpp"

namespace hymn::cuda {

template <class Reduction>
HYMN_KERNEL_BODY void all_reduce_one_shot(const KernelThread& at, const PeerTeam& team,
                                          const PeerCall& call) {
  const PeerMeeting meeting(at, team, call.limit);
  if (!meeting.begin()) return;
  const std::uint64_t packs = packs_in(call.bytes);
  copy_packs(at, meeting.slot(team.rank), static_cast<const std::byte*>(call.input), 0, packs,
             call.bytes);
  meeting.show_factor(call.factor);
  if (!meeting.meet(PeerPhase::staged)) return;
  auto* const output = static_cast<std::byte*>(call.output);
  for (std::uint64_t i = at.index(); i < packs; i += at.stride()) {
    const Pack result = fold_pack<Reduction>(meeting, team.size, i * pack_bytes);
    copy_some(output + i * pack_bytes, &result, bytes_of_pack(i, call.bytes));
  }
  meeting.finish();
}

}  // namespace hymn::cuda
