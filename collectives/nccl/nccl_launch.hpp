// Operations of NCCL in the order of launches.
#pragma once

#include <span>

#include "collectives/cuda/float32_reduction.hpp"
#include "collectives/launch/launch_queue.hpp"
#include "collectives/nccl/channel.hpp"
#include "collectives/nccl/launch.hpp"
#include "collectives/operation.hpp"

namespace hymn {

/// An operation that NCCL carries out.
class NcclLaunch final : public GpuLaunch {
 public:
  /// `wide`: what NCCL does of it in float32; null: NCCL does it as it is.
  NcclLaunch(NcclChannel& channel, const Call& call, int peer, Float32Reduction* wide = nullptr)
      : GpuLaunch(*call.request), channel_(channel), call_(call), peer_(peer), wide_(wide) {}

 private:
  /// What it asks of NCCL, perhaps together with others; what comes before is on the stream then.
  NcclMessage message() {
    return {channel_.place(stream()), wide_ == nullptr ? &request() : &wide_->begin(stream()),
            peer_};
  }
  GpuDevice& gpu() const override { return channel_.gpu(); }
  cuda_api::Stream own_stream() override { return channel_.stream(); }
  void begin() override { channel_.begin(); }
  const void* coalesced_in() const override { return call_.coalesced_in; }
  std::size_t together() const override { return call_.together; }
  // What NCCL was asked for is on the stream when the communicator has settled, and not before.
  bool is_ready() override {
    if (!channel_.step()) return false;
    if (wide_ != nullptr) wide_->finish(stream());
    return true;
  }
  void enqueue() override {
    const NcclMessage asked = message();
    launch_nccl(asked.place, *asked.request, peer_);
  }
  void enqueue_together(std::span<GpuLaunch* const> together) override;
  void took_off() override { channel_.took_off(); }

  NcclChannel& channel_;
  const Call& call_;
  const int peer_;
  Float32Reduction* const wide_;
};

}  // namespace hymn
