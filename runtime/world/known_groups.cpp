#include "runtime/world/known_groups.hpp"

namespace hymn::detail {

std::optional<GroupFailure> KnownGroups::enter(GroupState& group) {
  const std::lock_guard lock(mutex_);
  known_.emplace(key_of(group), &group);
  std::optional<GroupFailure> failure;
  if (auto* const early = early_aborts_.find(group.members().membership().uid)) failure = *early;
  early_aborts_.erase(group.members().membership().uid);
  return failure;
}

void KnownGroups::forget(const GroupState& group) {
  const std::lock_guard lock(mutex_);
  known_.erase(key_of(group));
}

bool KnownGroups::abort(std::uint64_t uid, const GroupFailure& failure) {
  const std::lock_guard lock(mutex_);
  bool is_known = false;
  bool concerned = false;
  const auto give_up = [&](GroupState& group) {
    is_known = true;
    concerned = group.members().is_member();
    if (concerned) group.health().abort_here(failure);
  };
  visit_locked(uid, give_up);
  // Others may have made the group, and given it up, before this rank has finished making it.
  if (!is_known) early_aborts_.try_emplace(uid, failure);
  return concerned;
}

bool KnownGroups::with(std::uint64_t uid, const std::function<void(const GroupState&)>& use) const {
  bool is_known = false;
  visit(uid, [&](const GroupState& group) {
    if (is_known || !group.members().is_member()) return;
    is_known = true;
    use(group);
  });
  return is_known;
}

}  // namespace hymn::detail
