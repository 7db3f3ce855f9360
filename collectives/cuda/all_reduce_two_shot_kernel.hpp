// all_reduce of more bytes: everybody shows its input, folds its own share of what all have shown,
// and takes the other shares from who has folded them.
#pragma once

#include "collectives/cuda/fold_pack.hpp"

namespace hymn::cuda {

/// The first of the packs that `rank` folds; where those of the next begin, they end.
HYMN_KERNEL_BODY std::uint64_t share_begin(std::uint64_t packs, unsigned rank, unsigned ranks) {
  return packs * rank / ranks;
}

// What a block shows of a share is what the same block of its peers reads: so blocks need to wait
// for their like only. The folded share replaces the own input in the slot, which nobody else reads
// there.
template <class Reduction>
HYMN_KERNEL_BODY void all_reduce_two_shot(const KernelThread& at, const PeerTeam& team,
                                          const PeerCall& call) {
  const PeerMeeting meeting(at, team, call);
  if (!meeting.begin()) return;
  const std::uint64_t packs = packs_in(call.bytes);
  std::byte* const own = meeting.slot(team.rank);
  auto* const output = static_cast<std::byte*>(call.output);
  for (unsigned rank = 0; rank < team.size; ++rank)
    copy_packs(at, own, static_cast<const std::byte*>(call.input),
               share_begin(packs, rank, team.size), share_begin(packs, rank + 1, team.size),
               call.bytes);
  meeting.show_factor(call.factor);
  if (!meeting.meet(PeerPhase::staged)) return;
  const std::uint64_t end = share_begin(packs, team.rank + 1, team.size);
  for (std::uint64_t i = share_begin(packs, team.rank, team.size) + at.index(); i < end;
       i += at.stride()) {
    const Pack result = fold_pack<Reduction>(meeting, team.size, i * pack_bytes);
    *reinterpret_cast<Pack*>(own + i * pack_bytes) = result;
    copy_some(output + i * pack_bytes, &result, bytes_of_pack(i, call.bytes));
  }
  if (!meeting.meet(PeerPhase::folded)) return;
  // Each begins with the next rank's, so that not all read from the same one.
  for (unsigned step = 1; step < team.size; ++step) {
    const unsigned rank = (team.rank + step) % team.size;
    copy_packs(at, output, meeting.slot(rank), share_begin(packs, rank, team.size),
               share_begin(packs, rank + 1, team.size), call.bytes);
  }
  meeting.finish();
}

}  // namespace hymn::cuda
