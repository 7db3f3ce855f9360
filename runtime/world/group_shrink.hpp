// shrink(): the members of a group that are left agree on who that is, and make a group of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "control/agent.hpp"
#include "runtime/world/group_requests.hpp"

namespace hymn::detail {

class GroupShrink {
 public:
  GroupShrink(WorldContext& world, GroupRequests& groups) : world_(world), groups_(groups) {}

  /// As ProcessGroup::shrink().
  ProcessGroup shrink(GroupState& group);

 private:
  Timeout limit_for(const GroupState& group) const;
  Timeout rest_of(Deadline deadline) const;
  Patience patience(const GroupState& group, std::uint64_t uid, std::vector<int> ranks,
                    Deadline deadline) const;
  /// Whom this rank waits for to have done the same with the group `uid`.
  std::shared_ptr<LongWait> long_wait(std::string purpose, std::uint64_t uid,
                                      std::vector<int> ranks) const;
  /// Nothing where one that it is made of is lost before all have it.
  std::shared_ptr<GroupState> make(const GroupState& group, const control::ShrinkVerdict& verdict,
                                   Deadline deadline);
  /// Whom shrink() of this group still waits for to have done that with the group `uid`.
  [[noreturn]] void throw_not_all_have(const GroupState& group, const char* done, std::uint64_t uid,
                                       const std::vector<int>& ranks, Duration waited) const;

  WorldContext& world_;
  GroupRequests& groups_;
};

}  // namespace hymn::detail
