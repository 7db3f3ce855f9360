// How a kernel waits for a peer, and how it gives up.
#pragma once

#include "collectives/cuda/kernel_thread.hpp"
#include "collectives/cuda/peer_team.hpp"

namespace hymn::cuda {

HYMN_KERNEL_BODY StagingHead& staging_head(const PeerTeam& team, unsigned rank) {
  return *reinterpret_cast<StagingHead*>(team.staging_buffers[rank]);
}

/// Of one thread, from the beginning of its kernel on.
class PeerWait {
 public:
  HYMN_KERNEL_BODY PeerWait(const PeerTeam& team, std::uint64_t limit)
      : team_(team), limit_(limit), since_(limit != 0 ? nanoseconds() : 0) {}

  /// The limit counts from now on.
  HYMN_KERNEL_BODY void restart() {
    if (limit_ != 0) since_ = nanoseconds();
  }

  /// Whether a kernel of this rank has not come to its end: then peers may be anywhere.
  HYMN_KERNEL_BODY bool has_failed() const {
    return load_acquire_system(&staging_head(team_, team_.rank).failed) != 0;
  }

  /// Whether the host has given all up. That takes longer than most kernels: it is its memory.
  HYMN_KERNEL_BODY bool is_aborted() const { return load_acquire_system(team_.aborted) != 0; }

  /// Waits until a word of this rank's staging buffer, which the peer writes, has come to that
  /// number: what the peer has written before can be read then. False: it was given up.
  HYMN_KERNEL_BODY bool until(const std::uint32_t* word, std::uint32_t number,
                              unsigned peer) const {
    // Looking at the host's memory and the clock takes longer than most peers do.
    constexpr unsigned spins_between_checks = 64;
    for (unsigned spins = 1;; ++spins) {
      // The peer may be ahead.
      if (static_cast<std::int32_t>(load_acquire_system(word) - number) >= 0) return true;
      if (spins % spins_between_checks == 0) {
        if (has_failed()) return false;  // another block
        if (is_aborted()) return give_up(PeerFailure::aborted, peer);
        if (limit_ != 0 && nanoseconds() - since_ > limit_)
          return give_up(PeerFailure::timed_out, peer);
      }
      relax();
    }
  }

  /// No kernel of this rank begins any more. Several blocks may say why: one of them is heard.
  HYMN_KERNEL_BODY bool give_up(PeerFailure why, unsigned peer) const {
    store_release_system(&staging_head(team_, team_.rank).failed, 1);
    store_release_system(team_.status, static_cast<std::uint32_t>(why) | peer << 8);
    return false;
  }

 private:
  const PeerTeam& team_;
  const std::uint64_t limit_;
  std::uint64_t since_;
};

}  // namespace hymn::cuda
