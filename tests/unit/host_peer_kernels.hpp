// The kernels that work with peers, compiled for the host: each block is a thread.
#pragma once

#include <string_view>

#include "collectives/cuda/kernel_thread.hpp"
#include "collectives/cuda/peer_team.hpp"

namespace hymn::test {

using HostPeerKernel = void (*)(const cuda::KernelThread&, const cuda::PeerTeam&,
                                const cuda::PeerCall&);

/// Null: there is none of that name.
HostPeerKernel find_host_peer_kernel(std::string_view name);

/// Returns when all blocks have ended.
void run_on_host(HostPeerKernel kernel, unsigned blocks, const cuda::PeerTeam& team,
                 const cuda::PeerCall& call);

}  // namespace hymn::test
