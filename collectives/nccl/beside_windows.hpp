// NCCL and peer memory in one group.
#pragma once

#include <memory>

#include "collectives/cuda/peer_channel.hpp"
#include "collectives/nccl/channel.hpp"

namespace hymn {

/// Both are of the same group: operations of NCCL may come before kernels on a stream, and the
/// windows are given up before NCCL is. To be called before the group uses either.
inline void go_together(const std::shared_ptr<PeerChannel>& windows,
                        const std::shared_ptr<NcclChannel>& nccl) {
  windows->set_follows([weak = std::weak_ptr(nccl)](bool is_captured) {
    const auto held = weak.lock();
    return held != nullptr && (is_captured || held->has_any_in_flight());
  });
  nccl->set_before_abort([weak = std::weak_ptr(windows)] {
    if (const auto held = weak.lock()) held->abort();
  });
}

}  // namespace hymn
