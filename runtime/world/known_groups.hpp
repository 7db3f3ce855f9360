// The groups of a rank, for threads that must not keep them alive.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/recent_map.hpp"
#include "control/coordinator.hpp"
#include "runtime/group/group_state.hpp"
#include "runtime/group/world_context.hpp"

namespace hymn::detail {

/// A rank may have several handles of one group.
using GroupKey = std::pair<std::uint64_t, const GroupState*>;
inline GroupKey key_of(const GroupState& group) {
  return {group.members().membership().uid, &group};
}

/// Every group, from when it is made until it is destroyed; not by shared pointers: a group must
/// not end, which takes its time, on the thread of the control plane. Thread-safe; its lock is held
/// for moments only.
class KnownGroups {
 public:
  /// Why others had given it up before this rank has made it; nothing: they have not.
  std::optional<GroupFailure> enter(GroupState& group);
  void forget(const GroupState& group);
  /// Others have given the group up: true where this rank is a member of it.
  bool abort(std::uint64_t uid, const GroupFailure& failure);
  /// Calls with the group, if it is there and this rank a member.
  bool with(std::uint64_t uid, const std::function<void(const GroupState&)>& use) const;
  /// Calls `visit` with each group that has this number, under the lock.
  template <class Visit>
  void visit(std::uint64_t uid, Visit visit) const {
    const std::lock_guard lock(mutex_);
    visit_locked(uid, visit);
  }
  /// The same with all, in the order in which they were made, until it returns true.
  template <class Visit>
  void visit_until(Visit visit) const {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, group] : known_)
      if (visit(*group)) return;
  }

 private:
  template <class Visit>
  void visit_locked(std::uint64_t uid, Visit& visit) const {
    for (auto known = known_.lower_bound({uid, nullptr});
         known != known_.end() && known->first.first == uid; ++known)
      visit(*known->second);
  }

  mutable std::mutex mutex_;  // guards what follows
  std::map<GroupKey, GroupState*> known_;
  RecentMap<std::uint64_t, GroupFailure> early_aborts_{control::most_remembered};
};

}  // namespace hymn::detail
