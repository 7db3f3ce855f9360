// all_reduce of a group on several hosts, in the memory of GPUs: through peer memory inside each
// host, by a bridge between hosts.
#pragma once

#include <memory>
#include <string>

#include "collectives/cuda/inter_host_all_reduce.hpp"
#include "collectives/cuda/peer_channel.hpp"

namespace hymn {

inline constexpr std::string_view hierarchical_nccl = "all_reduce_hierarchical_nccl";
inline constexpr std::string_view hierarchical_staged = "all_reduce_hierarchical_staged";

/// `name`: one of these two. `channel` is of the ranks on this host, of which every host has as
/// many.
std::unique_ptr<Algorithm> make_hierarchical_peer(std::string_view name,
                                                  std::shared_ptr<PeerChannel> channel,
                                                  std::shared_ptr<HostBridge> bridge);

/// Stands in the list for what it would do, and says why it cannot.
std::unique_ptr<Algorithm> make_no_hierarchical_peer(std::string_view name, std::string reason);

}  // namespace hymn
