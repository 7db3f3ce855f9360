// Collectives of a group whose GPUs reach each other's memory.
#pragma once

#include <memory>
#include <string>

#include "collectives/algorithm.hpp"
#include "collectives/cuda/peer_channel.hpp"

namespace hymn {

/// all_reduce_one_shot and all_reduce_two_shot, and the others through the staging buffers.
void add_peer_algorithms(Algorithms& algorithms, const std::shared_ptr<PeerChannel>& channel);

/// Stand in the list for what these would do, and say why they cannot.
void add_no_peer_algorithms(Algorithms& algorithms, const std::string& reason);

}  // namespace hymn
