// A call that blocks its caller, as far as who drives it must know it.
#pragma once

#include <exception>
#include <functional>

#include "runtime/group/call_title.hpp"
#include "runtime/group/group_health.hpp"

namespace hymn::detail {

/// Asked only where something is wrong.
class BlockedCall {
 public:
  virtual OpType type() const = 0;
  /// What has not completed of it, as errors name it.
  virtual PendingOp pending() const = 0;
  /// As GroupHealth::hopeless(), of all that has not completed. `step` takes a step of all.
  virtual std::exception_ptr hopeless(const GroupHealth& health,
                                      const std::function<bool()>& step) const = 0;

 protected:
  ~BlockedCall() = default;
};

/// One operation alone.
class SingleCall final : public BlockedCall {
 public:
  explicit SingleCall(const Call& call) : call_(call) {}
  OpType type() const override { return call_.request->type; }
  PendingOp pending() const override { return pending_of(call_); }
  std::exception_ptr hopeless(const GroupHealth& health,
                              const std::function<bool()>& step) const override {
    return health.hopeless(pending(), step);
  }

 private:
  const Call& call_;
};

}  // namespace hymn::detail
