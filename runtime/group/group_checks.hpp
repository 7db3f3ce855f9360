// What a group checks of a call that nothing else is wrong with, before its number is taken and
// anything of it is sent: docs/checks.md.
#pragma once

#include <string>

#include "runtime/group/gpu_waits.hpp"
#include "runtime/group/group_health.hpp"
#include "runtime/group/group_inquiry.hpp"
#include "runtime/group/group_means.hpp"
#include "runtime/group/group_watch.hpp"

namespace hymn {
struct CheckedCall;
struct Patience;
}  // namespace hymn

namespace hymn::detail {

class GroupChecks {
 public:
  /// What they use of a group.
  struct Parts {
    WorldContext& world;
    const GroupMembers& members;
    const GroupMeans& means;
    const GroupRecord& record;
    const GroupWatch& watch;
    const GroupInquiry& inquiry;
    const GpuWaits& gpu;
    GroupHealth& health;
  };
  explicit GroupChecks(const Parts& parts) : group_(parts) {}

  WatchedCall examine(const Call& call, const Algorithm& algorithm, const CallContext& note);
  void examine_part(const Call& call, const CallContext& note);
  /// A call of this type has failed before its number was taken: what the others see of this rank
  /// must not say for ever that it is meeting them for that number, which the next call asks for.
  void end_meeting(OpType type) const noexcept;

 private:
  void require_numbers(const Call& call, Timeout limit);
  void announce(const Call& call);
  void compare(const Call& call, const CallContext& note);
  [[noreturn]] void refuse_apart(const Call& call, const CallContext& note,
                                 const Patience& patience, const CheckedCall& mine,
                                 const std::string& misfit);
  [[noreturn]] void give_up_meeting(const PendingOp& op, const TimeoutError& error, Timeout limit);

  Parts group_;
};

}  // namespace hymn::detail
