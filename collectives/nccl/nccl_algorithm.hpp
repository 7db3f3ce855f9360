// Collectives, sends and receives of a group over NCCL.
#pragma once

#include <memory>
#include <string>

#include "collectives/algorithm.hpp"
#include "collectives/nccl/channel.hpp"

namespace hymn {

std::unique_ptr<Algorithm> make_nccl_algorithm(std::shared_ptr<NcclChannel> channel);

/// Stands in the list for what NCCL would do, and says why it cannot.
std::unique_ptr<Algorithm> make_no_nccl(std::string reason);

}  // namespace hymn
