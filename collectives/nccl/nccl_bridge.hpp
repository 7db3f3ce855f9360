// Shares of an operation from host to host by NCCL, on the stream.
#pragma once

#include <memory>

#include "collectives/cuda/inter_host_all_reduce.hpp"
#include "collectives/nccl/channel.hpp"

namespace hymn {

/// `column` is the channel of the ranks that hold the same shares; `in_float32`: they are not to be
/// float16 or bfloat16, which NCCL would round at each hop.
std::shared_ptr<HostBridge> make_nccl_bridge(std::shared_ptr<NcclChannel> column, bool in_float32);

}  // namespace hymn
