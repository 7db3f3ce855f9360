// Makes the groups of a world, with the other members of each, and knows those that live.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/exchange_mux.hpp"
#include "collectives/planner/planner.hpp"
#include "hymn/future.hpp"
#include "runtime/mechanisms/mechanism.hpp"
#include "runtime/world/group_maker.hpp"
#include "runtime/world/known_groups.hpp"
#include "runtime/world/local_numbers.hpp"
#include "runtime/world/tagged_groups.hpp"

namespace hymn::detail {

/// Any thread may call anything.
class GroupFactory {
 public:
  using Group = std::shared_ptr<GroupState>;
  /// Over what its groups work. What it is given must stay; where ranks are, and what was measured
  /// there, must be known before the first group is made.
  struct Means {
    ExchangeMux& mux;  ///< over which each group has an exchange of its own
    const std::vector<std::unique_ptr<Mechanism>>& mechanisms;
    const JobMap& job;
    const std::shared_ptr<const TuningTable>& tuning;
  };
  GroupFactory(WorldContext& world, const Means& means, KnownGroups& known);

  /// Groups keep `self` alive, of which the context is. What is made in the background is made on
  /// `cpus`.
  void start(std::weak_ptr<WorldContext> self, CpuSet cpus);
  /// As World's.
  ProcessGroup new_group(std::span<const int> ranks, const GroupOptions& options);
  ProcessGroup find(std::string_view tag, std::span<const int> ranks);
  ProcessGroup find_or_create(std::string_view tag, std::span<const int> flat_ranks,
                              std::size_t group_size, const GroupOptions& options);
  /// What the tags of a mesh's groups begin with; on all ranks of the mesh alike.
  std::string name_mesh(std::span<const int> ranks, std::span<const std::size_t> shape);
  Future<ProcessGroup> new_group_async(std::span<const int> ranks, const GroupOptions& options);
  /// The group of all ranks, which is the first.
  ProcessGroup make_default_group();
  Group make(Membership membership, const GroupOptions& options);
  /// Waits for groups that are being made in the background.
  void settle();
  /// The same, for the last time. Those who make the last groups with this rank may wait for what
  /// it has in flight.
  void finish();
  /// One with a tag of the program's lives without handles, too.
  void keep_tagged(const Group& group);
  /// All have been destroyed: none is kept any more.
  void let_go() { tagged_.clear(); }
  /// The next group gets this uid, no less than it would get; on all ranks alike.
  void skip_uids_to(std::uint64_t uid);
  /// As GroupOwner.
  void group_ended(const GroupState& group, bool clean);
  void forget_group(const GroupState& group);
  /// Those that live.
  std::vector<std::weak_ptr<GroupState>> all();

 private:
  /// What the members of a new group have told each other.
  struct Agreement {
    std::vector<std::vector<Bytes>> offers;   ///< by mechanism, then by member
    std::vector<std::vector<Bytes>> answers;  ///< likewise
    bool blocks = true;                       ///< see GroupMeans
    GroupLayout layout;
  };
  /// Of a group that is about to be made; without a uid where its members agree on one. Throws
  /// UsageError.
  Membership new_membership(std::span<const int> ranks, const GroupOptions& options);
  std::vector<int> sorted(std::span<const int> ranks, const ErrorContext& context) const;
  void check(const GroupOptions& options, const ErrorContext& context) const;
  void require_world(const ErrorContext& context) const;
  std::uint64_t next_uid(const ErrorContext& context);
  /// Null on a rank outside that did not need to call.
  Group make_or_find(Membership membership, const GroupOptions& options,
                     const LocalNumbers::Claim& claim);
  Group make_locally(Membership membership, const GroupOptions& options,
                     const LocalNumbers::Claim& claim);
  LocalNumbers::Claim claim_for(const Membership& membership, const GroupOptions& options);
  Group make_for_outsider(Membership membership, const GroupOptions& options);
  LocalNumbers::Number take_number(const LocalName& name, const LocalNumbers::Claim& claim,
                                   Timeout limit);
  Group make(Membership membership, const GroupOptions& options, Timeout limit);
  GroupMeans make_means(const Membership& membership, const GroupOptions& options, Timeout limit);
  void stand_by(const Membership& membership, const GroupOptions& options, Timeout limit);
  Group keep(Membership membership, const GroupOptions& options, GroupMeans means);
  static Membership suspects(const TimeoutError& error, const Membership& membership);
  /// In a handler: throws what has been caught again, with what is known of it.
  [[noreturn]] void give_up(const Membership& membership, const std::string& what);
  Agreement agree(Exchange& exchange, const Membership& membership, const GroupOptions& options,
                  Timeout limit);
  std::vector<std::vector<Bytes>> answer(Exchange& exchange, const Membership& membership,
                                         const std::vector<std::vector<Bytes>>& offers,
                                         Timeout limit);
  GroupMeans find_means(std::shared_ptr<Exchange> exchange, const Membership& membership,
                        const GroupOptions& options, Agreement agreement, Timeout limit);
  PlanContext plan_context(GroupLayout layout, const PathPolicy& path) const;
  bool shares_memory() const;
  bool is_member(const Membership& membership) const;
  void enter(GroupState& group);

  WorldContext& world_;
  Means means_;
  KnownGroups& known_;
  std::weak_ptr<WorldContext> self_;
  LocalNumbers numbers_;
  TaggedGroups tagged_;
  std::unique_ptr<GroupMaker> maker_;
  std::unique_ptr<GroupMakers> local_makers_;
  std::mutex mutex_;  // guards what follows, and the ends of groups
  std::uint64_t next_uid_ = 0;
  std::map<GroupKey, std::weak_ptr<GroupState>> groups_;
  std::map<std::string, std::uint64_t> meshes_;  ///< of the same ranks and shape, how many
};

}  // namespace hymn::detail
