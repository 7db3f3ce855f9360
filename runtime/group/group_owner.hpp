// What a group has its world do.
#pragma once

#include "hymn/process_group.hpp"

namespace hymn::detail {

class GroupState;

/// Thread-safe.
class GroupOwner {
 public:
  GroupOwner() = default;
  GroupOwner(const GroupOwner&) = delete;
  GroupOwner& operator=(const GroupOwner&) = delete;
  virtual ~GroupOwner() = default;

  /// A group has ended on this rank.
  virtual void group_ended(const GroupState& group, bool clean) = 0;
  /// It is gone.
  virtual void forget_group(const GroupState& group) = 0;
  /// As ProcessGroup::shrink().
  virtual ProcessGroup shrink(GroupState& group) = 0;
  /// Throws UsageError for options that no group can be made with.
  virtual void require_options(const GroupOptions& options, const ErrorContext& context) const = 0;
  /// Of these members of `group`, whose group ranks are their places in the list; they make it
  /// alone. Each calls it.
  virtual ProcessGroup new_group_in_order(const GroupState& group, std::vector<int> ranks,
                                          const GroupOptions& options) = 0;
};

}  // namespace hymn::detail
