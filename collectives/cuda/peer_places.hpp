// Which groups' kernels run on a rank's GPU at the same time.
#pragma once

#include <array>
#include <mutex>

#include "collectives/cuda/peer_team.hpp"
#include "gpu/cuda_api.hpp"

namespace hymn {

class PeerChannel;

/// Of one rank. A kernel that waits for its peers has room on the GPU as long as no more groups
/// than peer_groups_at_once have kernels there: so many places there are. Who has none comes behind
/// the kernels of the group whose turn was longest ago. All ranks make their calls in one order,
/// and so what is waited for never waits for what comes behind it. Thread-safe.
class PeerPlaces {
 public:
  /// Before a kernel of the channel is put on the stream.
  void enter(PeerChannel& channel, cuda_api::Stream stream);
  /// The channel ends.
  void leave(const PeerChannel& channel);

 private:
  std::mutex mutex_;
  std::array<PeerChannel*, cuda::peer_groups_at_once> latest_first_{};
};

}  // namespace hymn
