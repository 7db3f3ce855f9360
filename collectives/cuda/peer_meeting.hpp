// How the kernels of several ranks wait for each other, block by block.
//
// Kernels of a rank run one after the other, and all ranks run the same ones with as many blocks:
// so the number of a kernel says all. A block tells its peers by release stores of that number into
// their staging buffers, and waits for theirs in its own. Nothing is ever set back.
//
// A slot may be written again two kernels later: a block that has seen a peer in the kernel between
// knows that the peer's kernel before that has ended, with all that it had to read.
#pragma once

#include "collectives/cuda/peer_wait.hpp"

namespace hymn::cuda {

/// Of one thread; all of a block call the same.
class PeerMeeting {
 public:
  HYMN_KERNEL_BODY PeerMeeting(const KernelThread& at, const PeerTeam& team, const PeerCall& call)
      : at_(at),
        team_(team),
        number_(staging_head(team, team.rank).kernels + 1),
        checks_first_(call.checks_first != 0),
        has_crossed_(call.has_crossed != 0),
        wait_(team, call.limit) {}

  /// False: a kernel before has failed, and peers may be anywhere; or what came before on the
  /// stream, by NCCL, is nothing to go on with.
  HYMN_KERNEL_BODY bool begin() const {
    if (at_.any(wait_.has_failed())) return false;
    if (!checks_first_ && !has_crossed_) return true;
    return !at_.any(at_.thread == 0 && !is_whole());
  }

  /// Tells all peers that this block has come so far, and waits until their same blocks have: what
  /// these have written before can be read then. False: it was given up.
  HYMN_KERNEL_BODY bool meet(PeerPhase phase) const {
    at_.sync();
    for (unsigned peer = at_.thread; peer < team_.size; peer += at_.threads)
      store_release_system(reached(peer, phase, team_.rank), number_);
    bool all_came = true;
    for (unsigned peer = at_.thread; peer < team_.size && all_came; peer += at_.threads)
      all_came = wait_.until(reached(team_.rank, phase, peer), number_, peer);
    return !at_.any(!all_came);
  }

  /// After the last meet() of a piece: on to the next one in the same kernel. It counts like a
  /// kernel; but blocks wait for their like only, so each must have the same part of all pieces.
  HYMN_KERNEL_BODY void next() {
    ++number_;
    wait_.restart();
  }

  /// After the last meet(): the rank's next kernel may begin.
  HYMN_KERNEL_BODY void finish() const {
    at_.sync();
    if (at_.thread != 0) return;
    StagingHead& own = head(team_.rank);
    if (count_up(&own.blocks) + 1 != at_.blocks) return;
    own.blocks = 0;
    own.kernels = number_;
  }

  HYMN_KERNEL_BODY std::byte* slot(unsigned rank) const {
    return team_.staging_buffers[rank] + staging_data + parity() * team_.slot_bytes;
  }

 private:
  HYMN_KERNEL_BODY unsigned parity() const { return number_ % 2; }
  HYMN_KERNEL_BODY StagingHead& head(unsigned rank) const { return staging_head(team_, rank); }
  HYMN_KERNEL_BODY std::uint32_t* reached(unsigned where, PeerPhase phase, unsigned who) const {
    return &head(where).reached[static_cast<unsigned>(phase)][at_.block][who];
  }

  // What NCCL is made to give up ends like what is whole; of what crosses, the word may have come
  // and the shares not. Before that the host has said so. That is looked at here alone: it takes
  // longer than most kernels.
  HYMN_KERNEL_BODY bool is_whole() const {
    const StagingHead& own = head(team_.rank);
    const bool has_come = !has_crossed_ || own.crossed == own.kernels;
    return (has_come && !wait_.is_aborted()) ||
           wait_.give_up(has_crossed_ ? PeerFailure::not_crossed : PeerFailure::aborted,
                         team_.rank);
  }

  const KernelThread& at_;
  const PeerTeam& team_;
  std::uint32_t number_;
  const bool checks_first_;
  const bool has_crossed_;
  PeerWait wait_;
};

}  // namespace hymn::cuda
