#include "runtime/world/group_factory.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/meeting.hpp"
#include "base/tag_text.hpp"
#include "recorder/making_note.hpp"
#include "runtime/group/work_state.hpp"

namespace hymn::detail {

bool GroupFactory::is_member(const Membership& membership) const {
  return GroupMembers::shape_of(membership, world_.rank()).rank >= 0;
}

GroupFactory::Group GroupFactory::make(Membership membership, const GroupOptions& options) {
  return make(std::move(membership), options, world_.settings.making_limit(options));
}

GroupFactory::Group GroupFactory::make(Membership membership, const GroupOptions& options,
                                       Timeout limit, const std::function<void()>& in_vain) {
  if (!is_member(membership)) {
    meeting_.stand_by(membership, options, limit);
    return keep(std::move(membership), options, {});
  }
  MakingNote note(world_.recorder, membership.uid, membership.ranks, MakingKind::new_group,
                  membership.tag);
  GroupMeans means = meet(membership, options, limit, in_vain);
  auto group = keep(std::move(membership), options, std::move(means));
  note.set_made();
  return group;
}

GroupMeans GroupFactory::meet(const Membership& membership, const GroupOptions& options,
                              Timeout limit, const std::function<void()>& in_vain) {
  try {
    return meeting_.hold(membership, options, limit);
  } catch (const MissedMeeting&) {
    if (!in_vain) meeting_.give_up(membership, fmt::format("group {}", membership.uid));
    meeting_.close(membership, false);
    throw;
  } catch (...) {
    if (in_vain) in_vain();
    meeting_.give_up(membership,
                     fmt::format("group {}{}", membership.uid, with_tag(membership.tag)));
  }
}

GroupFactory::Group GroupFactory::keep(Membership membership, const GroupOptions& options,
                                       GroupMeans means) {
  if (membership.tag.empty() && membership.uid != 0)
    membership.tag = TaggedGroups::tag_of(membership.uid);
  auto group =
      make_shared_here<GroupState>(self_.lock(), std::move(membership), options, std::move(means));
  enter(*group);
  tagged_.enter(group);
  std::lock_guard lock(mutex_);
  groups_.emplace(key_of(*group), group);
  return group;
}

GroupFactory::Group GroupFactory::find_or_make(const Membership& membership,
                                               const GroupOptions& options,
                                               const std::function<Group()>& make) {
  const std::string purpose =
      fmt::format("making the group '{}' of ranks [{}]", shown_tag(membership.tag),
                  fmt::join(membership.ranks, ", "));
  return tagged_.find_or_make(membership.tag, membership.ranks,
                              world_.patience(purpose, world_.settings.making_limit(options)),
                              make);
}

void GroupFactory::enter(GroupState& group) {
  const std::optional<GroupFailure> failure = known_.enter(group);
  if (failure && group.members().is_member()) {
    group.health().abort_here(*failure);
    world_.incidents.group_failed(*failure);
  }
  if (!world_.peers.has_control()) return;
  for (const PeerNews& news : world_.peers.agent()->all_news())
    if (is_gone(news.state)) group.health().member_changed(news);
}

void GroupFactory::keep_tagged(const Group& group) {
  if (!TaggedGroups::is_automatic(group->members().membership().tag)) tagged_.keep(group);
}

void GroupFactory::group_ended(const GroupState& group, bool clean) {
  tagged_.forget(group);
  std::lock_guard lock(mutex_);
  meeting_.close(group.members().membership(), clean);
}

void GroupFactory::forget_group(const GroupState& group) {
  known_.forget(group);
  tagged_.forget(group);
  const std::lock_guard lock(mutex_);
  groups_.erase(key_of(group));
}

std::exception_ptr GroupFactory::destroy_all() {
  std::exception_ptr first;
  for (const auto& weak : all()) {
    try {
      if (const auto group = weak.lock()) group->destroy();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  tagged_.clear();
  return first;
}

std::vector<std::weak_ptr<GroupState>> GroupFactory::all() {
  const std::lock_guard lock(mutex_);
  std::vector<std::weak_ptr<GroupState>> groups;
  for (const auto& [key, group] : groups_) groups.push_back(group);
  return groups;
}

}  // namespace hymn::detail
