// Requests as kernels that work with peers.
#pragma once

#include "collectives/cuda/peer_channel.hpp"
#include "collectives/cuda/peer_rules.hpp"
#include "collectives/launch/launch_queue.hpp"

namespace hymn {

/// Whether a kernel can carry it out, with slots of that many bytes. All members get the same
/// answer.
Verdict peer_can_run(const Request& request, PeerMethod method, int ranks, std::size_t slot_bytes);

/// The name of the kernel for that. Throws where there is none, which peer_can_run() tells before.
const char* kernel_name(OpType type, PeerMethod method, DataType dtype, ReduceKind kind);

/// One request on its way to the GPU.
class PeerLaunch final : public GpuLaunch {
 public:
  /// `root`: of a rooted collective, as a group rank.
  PeerLaunch(PeerChannel& channel, const Request& request, PeerMethod method, int root)
      : GpuLaunch(request), channel_(channel), method_(method), root_(root) {}

 private:
  GpuDevice& gpu() const override { return channel_.gpu(); }
  cuda_api::Stream own_stream() override {
    return channel_.gpu().stream(channel_.parts().high_priority);
  }
  bool is_ready() override;
  void enqueue() override;

  PeerChannel& channel_;
  const PeerMethod method_;
  const int root_;
};

}  // namespace hymn
