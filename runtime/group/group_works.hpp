// What a group has in flight on this rank, and how all of it ends.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/group/coalescing_scopes.hpp"

namespace hymn::detail {

class GroupState;
class WorkState;

/// Thread-safe.
class GroupWorks {
 public:
  explicit GroupWorks(GroupState& group) : group_(group) {}

  /// What is to be in flight when they end.
  CoalescingScopes& scopes() { return scopes_; }
  /// Where the group was given up, all of it ends. Before the application hears of that by a call:
  /// then its buffers may be gone.
  void end_given_up();
  /// The same without tell_all(), which is to follow with these: those that have ended, also on
  /// other threads, and of which nobody knows yet.
  std::vector<std::shared_ptr<WorkState>> end_untold();
  /// Makes a call: where that throws, end_given_up() comes before.
  template <class Call>
  auto ending_what_is_given_up(Call call) {
    try {
      return call();
    } catch (...) {
      end_given_up();
      throw;
    }
  }

  /// Gives all of it up without a step: its buffers may be gone.
  void abandon(const std::string& reason);
  /// The group is destroyed: waits for all of it, up to the group's timeout, and gives up the rest.
  /// True when all has completed.
  bool drain();

 private:
  /// The oldest first.
  std::vector<std::shared_ptr<WorkState>> all() const;
  /// True when all have ended, successfully or not.
  bool await_all(std::span<const std::shared_ptr<WorkState>> works);

  GroupState& group_;
  CoalescingScopes scopes_;
};

}  // namespace hymn::detail
