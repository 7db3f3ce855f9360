// What is left of an operation through staging buffers that was given up.
#pragma once

#include <memory>
#include <utility>

#include "collectives/operation.hpp"
#include "gpu/gpu_device.hpp"

namespace hymn {

/// Kernels of a channel: they end soon, for they have been told to.
template <class Channel>
class AbandonedPeerOperation final : public AbandonedOperation {
 public:
  /// `event`: behind the last of them; null: there is none any more.
  AbandonedPeerOperation(std::shared_ptr<Channel> channel, cuda_api::Event event)
      : channel_(std::move(channel)), event_(event) {}
  ~AbandonedPeerOperation() override {
    if (event_ != nullptr) channel_->gpu().give_back(event_);
  }
  bool done() override { return event_ == nullptr || channel_->gpu().is_over(event_); }

 private:
  std::shared_ptr<Channel> channel_;
  cuda_api::Event event_;
};

}  // namespace hymn
