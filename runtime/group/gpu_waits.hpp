// What a group waits for on the GPU of its rank before anything of a call is sent. No peer is
// waited for, so that nobody is to blame and the group stays as it is.
#pragma once

#include <functional>
#include <optional>

#include "runtime/group/call_title.hpp"
#include "runtime/group/group_health.hpp"
#include "runtime/group/group_means.hpp"

namespace hymn::detail {

class GpuWaits {
 public:
  GpuWaits(WorldContext& world, const GroupMembers& members, const GroupHealth& health,
           const DeviceReach& reach)
      : world_(world), members_(members), health_(health), reach_(reach) {}

  /// Moves what is in flight in this process until `is_done`; `look` is called before each turn,
  /// and throws where waiting is of no use. How long it has waited in vain, or nothing.
  std::optional<Duration> await(const std::function<bool()>& is_done, Timeout limit,
                                const std::function<void()>& look) const;
  void await_ready(Operation& operation, const Call& call, Timeout limit) const;
  /// As find_nan().
  std::size_t find_nan_on_gpu(const Call& call, const ConstBufferView& view, Timeout limit) const;

 private:
  void await_gpu(const Call& call, Timeout limit, const char* what,
                 const std::function<bool()>& is_done) const;

  WorldContext& world_;
  const GroupMembers& members_;
  const GroupHealth& health_;
  const DeviceReach& reach_;
};

}  // namespace hymn::detail
