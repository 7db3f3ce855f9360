// Makes the groups of a world, with the other members of each, and knows those that live.
#pragma once

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/world/group_meeting.hpp"
#include "runtime/world/known_groups.hpp"
#include "runtime/world/tagged_groups.hpp"

namespace hymn::detail {

/// Any thread may call anything.
class GroupFactory {
 public:
  using Group = std::shared_ptr<GroupState>;
  GroupFactory(WorldContext& world, const GroupMeeting::Means& means, KnownGroups& known)
      : world_(world), meeting_(world, means), known_(known) {}

  /// Groups keep `self` alive, of which the context is.
  void start(std::weak_ptr<WorldContext> self) { self_ = std::move(self); }
  const std::weak_ptr<WorldContext>& world() const { return self_; }
  GroupMeeting& meeting() { return meeting_; }
  bool is_member(const Membership& membership) const;

  Group make(Membership membership, const GroupOptions& options);
  /// `in_vain` is called as soon as this rank gives it up, before others are asked who has not
  /// come.
  Group make(Membership membership, const GroupOptions& options, Timeout limit,
             const std::function<void()>& in_vain = {});
  /// One that has been met for; without means where this rank is outside, and need not meet.
  Group keep(Membership membership, const GroupOptions& options, GroupMeans means);

  /// As TaggedGroups.
  Group find(std::string_view tag, std::span<const int> ranks) { return tagged_.find(tag, ranks); }
  Group find_or_make(const Membership& membership, const GroupOptions& options,
                     const std::function<Group()>& make);
  /// One with a tag of the program's lives without handles, too.
  void keep_tagged(const Group& group);

  /// As GroupOwner.
  void group_ended(const GroupState& group, bool clean);
  void forget_group(const GroupState& group);
  /// None is kept any more then. Returns the first error, in spite of which the others are, too.
  std::exception_ptr destroy_all();

 private:
  std::vector<std::weak_ptr<GroupState>> all();
  GroupMeans meet(const Membership& membership, const GroupOptions& options, Timeout limit,
                  const std::function<void()>& in_vain);
  void enter(GroupState& group);

  WorldContext& world_;
  GroupMeeting meeting_;
  KnownGroups& known_;
  std::weak_ptr<WorldContext> self_;
  TaggedGroups tagged_;
  std::mutex mutex_;  // guards what follows, and the ends of groups
  std::map<GroupKey, std::weak_ptr<GroupState>> groups_;
};

}  // namespace hymn::detail
