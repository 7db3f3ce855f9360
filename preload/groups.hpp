// hymn's groups for communicators of the program.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "hymn/world.hpp"
#include "preload/mpi.hpp"

namespace hymn::preload {

struct SharedGroup {
  explicit SharedGroup(ProcessGroup made, bool ends = false)
      : group(std::move(made)), ends_with_leases(ends) {}
  SharedGroup(const SharedGroup&) = delete;
  SharedGroup& operator=(const SharedGroup&) = delete;
  ~SharedGroup();

  ProcessGroup group;
  /// Those with a tag live on without handles, unless they are destroyed.
  const bool ends_with_leases;
  /// A call of it has failed here, so that its members are out of step: nobody is to use it again.
  std::atomic<bool> is_given_up{false};
};
/// A group that a communicator uses.
using GroupLease = std::shared_ptr<SharedGroup>;

/// Groups by their ranks. A communicator that comes and goes costs a group once: the next one with
/// its ranks takes what it has left, if all members still have that. Those that live have one each:
/// their calls must not be taken for each other's, in whatever order a program makes them.
/// Thread-safe.
class Groups {
 public:
  /// `may_overlap`: two threads may be in MPI at the same time. `hosts`: of each rank a number that
  /// those of its host have alone.
  Groups(World& world, bool may_overlap, std::vector<int> hosts)
      : world_(world),
        may_overlap_(may_overlap),
        hosts_(std::move(hosts)),
        all_(std::make_shared<SharedGroup>(world.group())) {}

  /// The group of these global ranks, ascending, which are those of `comm`; all its ranks call it.
  /// Null, on all of them: there can be none.
  GroupLease take(MPI_Comm comm, const std::vector<int>& ranks);
  /// On how many hosts these ranks are.
  std::size_t hosts_of(const std::vector<int>& ranks) const;

 private:
  /// More groups than that, which nobody uses, are ended.
  static constexpr std::size_t most_kept = 64;

  GroupLease find(const std::vector<int>& ranks);
  GroupLease make_together(MPI_Comm comm, const std::vector<int>& ranks, std::int64_t number);
  GroupLease make(const std::vector<int>& ranks, std::int64_t number);
  /// No other rank of the world draws it, nor does this one again.
  std::int64_t draw_number();
  void keep(const std::vector<int>& ranks, const GroupLease& group);
  static bool is_free(const GroupLease& group) {
    return !group->is_given_up && group.use_count() == 1;
  }

  World& world_;
  const bool may_overlap_;
  const std::vector<int> hosts_;
  const GroupLease all_;  ///< of all ranks of the world
  std::mutex mutex_;
  std::multimap<std::vector<int>, GroupLease> groups_;
  std::int64_t last_number_ = 0;
};

}  // namespace hymn::preload
