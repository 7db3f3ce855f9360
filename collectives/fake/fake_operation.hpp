// An operation among ranks of which only one is there: that of a fake world.
#pragma once

#include "collectives/algorithm.hpp"
#include "collectives/operation.hpp"

namespace hymn {

/// Complete once it has started. Every other rank is taken to give what this one gives; of a
/// reduction nothing is computed, its result is one such input. What comes from a root or a sender
/// that is elsewhere does not come: those buffers stay as they are.
class FakeOperation final : public Operation {
 public:
  FakeOperation(const GroupShape& shape, const Call& call) : shape_(shape), call_(call) {}

  void start() override;
  bool step() override { return true; }
  std::unique_ptr<AbandonedOperation> abandon(const std::string&) noexcept override {
    return nullptr;
  }
  RecvStatus status() const override;

 private:
  /// Whether this rank gets anything of which it has the like.
  bool has_result() const;

  const GroupShape shape_;
  const Call call_;
};

}  // namespace hymn
