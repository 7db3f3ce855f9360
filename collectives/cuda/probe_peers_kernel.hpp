// Tries whether a GPU reaches the staging buffers of all its peers, before anything depends on it.
#pragma once

#include "collectives/cuda/kernel_thread.hpp"
#include "collectives/cuda/peer_team.hpp"

namespace hymn::cuda {

/// Reads the number of every staging buffer, and writes the own one there, which is the
/// call's, to read it back. The output is a PeerProbe for each rank. Waits for nobody.
HYMN_KERNEL_BODY void probe_peers(const KernelThread& at, const PeerTeam& team,
                                  const PeerCall& call) {
  for (unsigned rank = static_cast<unsigned>(at.index()); rank < team.size;
       rank += static_cast<unsigned>(at.stride())) {
    auto* const head = reinterpret_cast<StagingHead*>(team.staging_buffers[rank]);
    store_release_system(&head->visited_by[team.rank], call.number);
    auto* const found = static_cast<PeerProbe*>(call.output) + rank;
    found->number = load_acquire_system(&head->number);
    found->kept = load_acquire_system(&head->visited_by[team.rank]);
  }
}

}  // namespace hymn::cuda
