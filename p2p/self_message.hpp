// A message of a rank to itself: the two sides of one copy.
#pragma once

#include "hymn/buffer.hpp"
#include "p2p/operation.hpp"

namespace hymn {

/// Neither side waits for anybody.
class SelfMessage : public Operation {
 public:
  void start() override {}
  bool step() override { return true; }
  bool can_park() const override { return true; }
  std::unique_ptr<AbandonedOperation> abandon(const std::string&) noexcept override {
    return nullptr;
  }
};

/// Nothing is left to do: the other side copies.
class SelfSend final : public SelfMessage {};

class SelfRecv final : public SelfMessage {
 public:
  /// `in` fits into `out`. `status` is what came: known before it does.
  SelfRecv(const ConstBufferView& in, const BufferView& out, const RecvStatus& status)
      : in_(in), out_(out), status_(status) {}
  void start() override;
  RecvStatus status() const override { return status_; }

 private:
  ConstBufferView in_;
  BufferView out_;
  RecvStatus status_;
};

}  // namespace hymn
