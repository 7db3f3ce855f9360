// all_reduce of a group on several hosts, in the memory of GPUs: through peer memory inside each
// host, by a bridge between hosts.
#pragma once

#include <memory>
#include <string>

#include "collectives/cuda/inter_host_all_reduce.hpp"
#include "collectives/cuda/peer_channel.hpp"

namespace hymn {

/// `model` tells what the bridge is. `channel` is of the ranks on this host, of which every host
/// has as many.
std::unique_ptr<Algorithm> make_hierarchical_peer(const AlgorithmModel& model,
                                                  std::shared_ptr<PeerChannel> channel,
                                                  std::shared_ptr<HostBridge> bridge);

}  // namespace hymn
