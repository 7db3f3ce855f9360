// An all_reduce over several hosts on its way to the GPU: kernels fold shares of it inside each
// host, these cross to the other hosts, and kernels spread them.
#pragma once

#include <memory>

#include "collectives/cuda/host_shares.hpp"
#include "collectives/cuda/inter_host_all_reduce.hpp"
#include "collectives/cuda/peer_channel.hpp"
#include "collectives/launch/launch_queue.hpp"

namespace hymn {

/// What this rank takes to other hosts: parts of `out`, of which the host's ranks make `shares`.
std::vector<BufferView> shares_of(const HostShares& shares, int rank, const BufferView& out);

/// It keeps its place in the order of launches until its last kernel is on the stream: so all ranks
/// run the kernels of a staging buffer in the same order.
class HierarchicalLaunch final : public GpuLaunch {
 public:
  /// `channel` is of the ranks on this host.
  HierarchicalLaunch(PeerChannel& channel, const HostShares& shares, InterHostAllReduce& inter_host,
                     const Request& request)
      : GpuLaunch(request), channel_(channel), shares_(shares), inter_host_(inter_host) {}

  /// Whether anything of it is on the stream, or has been.
  bool has_begun() const { return has_begun_; }

 private:
  GpuDevice& gpu() const override { return channel_.gpu(); }
  cuda_api::Stream own_stream() override {
    return channel_.gpu().stream(channel_.parts().high_priority);
  }
  void begin() override { inter_host_.begin(); }
  bool is_ready() override;
  void enqueue() override;
  void fold();
  void spread();
  /// `bytes` as PeerCall has them.
  void launch(OpType type, const void* from, void* to, std::size_t bytes);

  PeerChannel& channel_;
  const HostShares shares_;
  InterHostAllReduce& inter_host_;
  bool has_begun_ = false;
  bool is_spread_ = false;
  bool has_crossed_ = false;  ///< the next kernel works with what has come by NCCL
};

}  // namespace hymn
