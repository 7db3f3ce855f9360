// all_reduce of any number of bytes: everybody shows its input, folds its own share of what all
// have shown, and takes the other shares from who has folded them.
#pragma once

#include "collectives/cuda/fold_pack.hpp"

namespace hymn::cuda {

/// The first of the packs that `rank` folds; where those of the next begin, they end.
HYMN_KERNEL_BODY std::uint64_t share_begin(std::uint64_t packs, unsigned rank, unsigned ranks) {
  return packs * rank / ranks;
}

struct TwoShotPiece {
  const std::byte* input;
  std::byte* output;
  std::uint64_t bytes;
  std::uint64_t packs;  ///< by which it is shared out: those of a whole piece

  /// The packs that the rank folds, of those that there are.
  HYMN_KERNEL_BODY std::uint64_t begin(unsigned rank, unsigned ranks) const {
    const std::uint64_t begin = share_begin(packs, rank, ranks);
    const std::uint64_t all = packs_in(bytes);
    return begin < all ? begin : all;
  }

  /// False: it was given up.
  template <class Reduction>
  HYMN_KERNEL_BODY bool reduce(const KernelThread& at, const PeerTeam& team,
                               const PeerMeeting& meeting) const {
    std::byte* const own = meeting.slot(team.rank);
    HYMN_ROLLED
    for (unsigned rank = 0; rank < team.size; ++rank)
      copy_packs(at, own, input, begin(rank, team.size), begin(rank + 1, team.size), bytes);
    if (!meeting.meet(PeerPhase::staged)) return false;
    const auto store = [&](std::uint64_t i, Pack result) {
      *reinterpret_cast<Pack*>(own + i * pack_bytes) = result;
      put_pack(output + i * pack_bytes, result, bytes_of_pack(i, bytes));
    };
    fold_range<Reduction>(at, meeting, team.size, 0, begin(team.rank, team.size),
                          begin(team.rank + 1, team.size), store);
    if (!meeting.meet(PeerPhase::folded)) return false;
    // Each begins with the next rank's, so that not all read from the same one.
    HYMN_ROLLED
    for (unsigned step = 1; step < team.size; ++step) {
      const unsigned rank = (team.rank + step) % team.size;
      copy_packs(at, output, meeting.slot(rank), begin(rank, team.size), begin(rank + 1, team.size),
                 bytes);
    }
    return true;
  }
};

// What a block shows of a share is what the same block of its peers reads: so blocks need to wait
// for their like only. The folded share replaces the own input in the slot, which nobody else reads
// there. What is larger than a slot goes piece by piece, in which blocks run ahead of each other:
// each has the same packs of every piece, also of the last, which is shorter.
template <class Reduction>
HYMN_KERNEL_BODY void all_reduce_two_shot(const KernelThread& at, const PeerTeam& team,
                                          const PeerCall& call) {
  PeerMeeting meeting(at, team, call);
  if (!meeting.begin()) return;
  const std::uint64_t most = call.bytes < team.slot_bytes ? call.bytes : team.slot_bytes;
  for (std::uint64_t done = 0;;) {
    const std::uint64_t bytes = call.bytes - done < most ? call.bytes - done : most;
    const TwoShotPiece piece{.input = static_cast<const std::byte*>(call.input) + done,
                             .output = static_cast<std::byte*>(call.output) + done,
                             .bytes = bytes,
                             .packs = packs_in(most)};
    if (!piece.reduce<Reduction>(at, team, meeting)) return;
    done += bytes;
    if (done == call.bytes) break;
    meeting.next();
  }
  meeting.finish();
}

}  // namespace hymn::cuda
