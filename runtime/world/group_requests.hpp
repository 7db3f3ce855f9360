// How groups are asked for: what is wrong with that on this rank alone, who must call, which uid
// and tag they get, and which thread makes them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "hymn/future.hpp"
#include "runtime/world/group_factory.hpp"
#include "runtime/world/group_maker.hpp"
#include "runtime/world/local_groups.hpp"

namespace hymn::detail {

/// Any thread may call anything.
class GroupRequests {
 public:
  GroupRequests(WorldContext& world, const GroupMeeting::Means& means, KnownGroups& known)
      : world_(world), factory_(world, means, known), local_(world, factory_, means.mux) {}

  /// As GroupFactory; what is made in the background is made on `cpus`.
  void start(std::weak_ptr<WorldContext> self, CpuSet cpus);
  GroupFactory& factory() { return factory_; }

  /// The group of all ranks, which is the first.
  ProcessGroup make_default_group();
  /// As World's.
  ProcessGroup new_group(std::span<const int> ranks, const GroupOptions& options);
  /// As GroupOwner's.
  void require_options(const GroupOptions& options, const ErrorContext& context) const;
  ProcessGroup new_group_in_order(std::uint64_t parent, std::vector<int> ranks,
                                  GroupOptions options);
  Future<ProcessGroup> new_group_async(std::span<const int> ranks, const GroupOptions& options);
  ProcessGroup find(std::string_view tag, std::span<const int> ranks);
  ProcessGroup find_or_create(std::string_view tag, std::span<const int> flat_ranks,
                              std::size_t group_size, const GroupOptions& options);
  /// What the tags of a mesh's groups begin with; on all ranks of the mesh alike.
  std::string name_mesh(std::span<const int> ranks, std::span<const std::size_t> shape);

  /// Waits for groups that are being made in the background.
  void settle();
  /// The same, for the last time.
  void finish();
  /// The next group gets this uid, no less than it would get; on all ranks alike.
  void skip_uids_to(std::uint64_t uid);

 private:
  /// Of a group that is about to be made; without a uid where its members agree on one. Throws
  /// UsageError.
  Membership new_membership(std::span<const int> ranks, const GroupOptions& options);
  ProcessGroup make_alone(Membership membership, const GroupOptions& options);
  void require_world(const ErrorContext& context) const;
  std::uint64_t next_uid(const ErrorContext& context);
  std::shared_ptr<FutureState<ProcessGroup>> new_future();
  void make_beside(bool alone, std::function<void()> make);

  WorldContext& world_;
  GroupFactory factory_;
  LocalGroups local_;
  std::unique_ptr<GroupMaker> maker_;
  std::unique_ptr<GroupMakers> local_makers_;
  std::mutex mutex_;  // guards what follows
  std::uint64_t next_uid_ = 0;
  std::map<std::string, std::uint64_t> meshes_;  ///< of the same ranks and shape, how many
};

}  // namespace hymn::detail
