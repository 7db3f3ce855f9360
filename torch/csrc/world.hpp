// hymn's worlds and groups, as process groups of torch need them.
#pragma once

#include <hymn/hymn.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device_groups.hpp"
#include "store.hpp"
#include "torch_version.hpp"

namespace hymn_torch {

class World;

/// What torch tells about a process group that is to be made.
struct GroupRequest {
  c10::intrusive_ptr<c10d::Store> store;  ///< of this group alone
  int rank = 0;                           ///< in the group
  int size = 1;
  double timeout_seconds = 0;
  std::string name;
  std::vector<int> ranks;        ///< the members' ranks in the world; empty: it is of all its ranks
  std::shared_ptr<World> world;  ///< null: that of the process, whose ranks are torch's own
  bool has_all = false;          ///< every process of the job is in it
  int gpu = -1;                  ///< on which it works; -1: the one that hymn has chosen
};

/// All processes that found each other over one store. It ends when nothing uses it.
class World {
 public:
  explicit World(const GroupRequest& request);
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World();

  hymnWorld_t handle() const { return handle_; }
  /// Of all its ranks; it is not freed.
  hymnGroup_t group() const;
  /// A group of these ranks, which its members make alone.
  hymnGroup_t make_group(const GroupRequest& request);
  /// Twice is fine.
  void end() noexcept;

 private:
  [[noreturn]] void fail(hymnResult_t result) const;

  std::shared_ptr<StoreTrouble> trouble_ = std::make_shared<StoreTrouble>();
  std::mutex mutex_;  ///< hymn's worlds are used by one thread at a time
  hymnWorld_t handle_ = nullptr;
};

/// A process group's part of a world.
class Group {
 public:
  /// Waits for the other members. The first group of all ranks makes the world of the process,
  /// which later groups are parts of; others have a world of their own.
  explicit Group(const GroupRequest& request);
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group();

  hymnGroup_t handle() const { return handle_; }
  /// For tensors on GPUs.
  DeviceGroups& on_gpus() { return *on_gpus_; }
  /// For a group of these members, in this order.
  GroupRequest part(const std::vector<int>& ranks) const;
  /// From the rank in the group to that in hymn's world.
  int world_rank(int64_t rank) const;
  /// The other way, by what a receive has told.
  int group_rank(int world_rank) const;
  /// The limit of operations that start from now on, in seconds.
  double limit() const { return limit_.load(std::memory_order_relaxed); }
  void set_limit(double seconds);
  /// Gives it up, on all its ranks.
  void abort(const std::string& reason);
  /// The same at the end of the process, whatever it has come to.
  void abandon() const noexcept;
  /// Throws as a call with this reduction would; nothing is sent.
  void require_reduction(hymnDataType_t type, hymnOp_t op);

 private:
  void join(const GroupRequest& request);
  hymnGroup_t alone();
  hymnGroup_t make_on(int gpu);

  std::shared_ptr<World> world_;
  hymnGroup_t handle_ = nullptr;
  std::unique_ptr<DeviceGroups> on_gpus_;
  bool is_of_world_ = false;
  std::vector<int> world_ranks_;  ///< of each member, in torch's order
  std::atomic<double> limit_;
  std::once_flag alone_is_made_;
  hymnGroup_t alone_ = nullptr;  ///< of this rank, where something was tried
};

/// At the end of the process, while all libraries are still there: ends all worlds; those with
/// operations in flight are given up, for nobody waits for these any more.
void end_all_worlds(bool has_operations) noexcept;

}  // namespace hymn_torch
