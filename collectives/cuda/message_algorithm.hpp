// Sends and receives between GPUs that reach each other's memory.
#pragma once

#include <memory>
#include <string>

#include "collectives/algorithm.hpp"
#include "collectives/cuda/peer_channel.hpp"

namespace hymn {

/// send_recv_windows. `channel` null: it can run nothing, for that reason.
std::unique_ptr<Algorithm> make_peer_messages(const std::shared_ptr<PeerChannel>& channel,
                                              std::string reason);

}  // namespace hymn
