// What is left of an operation through staging buffers that was given up.
#pragma once

#include <memory>
#include <utility>

#include "collectives/cuda/peer_channel.hpp"
#include "collectives/operation.hpp"

namespace hymn {

/// Kernels of a channel: they end soon, for they have been told to.
class AbandonedPeerOperation final : public AbandonedOperation {
 public:
  /// `event`: behind the last of them; null: there is none any more.
  AbandonedPeerOperation(std::shared_ptr<PeerChannel> channel, cuda_api::Event event)
      : channel_(std::move(channel)), event_(event) {}
  ~AbandonedPeerOperation() override {
    if (event_ != nullptr) channel_->gpu().give_back(event_);
  }
  bool done() override { return event_ == nullptr || channel_->gpu().is_over(event_); }

 private:
  std::shared_ptr<PeerChannel> channel_;
  cuda_api::Event event_;
};

}  // namespace hymn
