// What is known of a communicator of the program; it goes with it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "preload/groups.hpp"
#include "preload/mpi.hpp"
#include "preload/reasons.hpp"
#include "preload/watch.hpp"

namespace hymn::preload {

class Communicator {
 public:
  /// `watch`: null: nothing is recorded.
  Communicator(MPI_Comm comm, Watch* watch);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  MPI_Comm handle() const { return comm_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  /// On how many hosts its ranks are; known once admit() has let something through.
  std::size_t hosts() const { return hosts_; }
  /// Of these ranks in MPI_COMM_WORLD, in the order of the communicator.
  const std::vector<int>& world_ranks() const { return world_ranks_; }
  int world_rank(int rank) const { return world_ranks_[static_cast<std::size_t>(rank)]; }
  /// hymn's group has its members in the order of MPI_COMM_WORLD. Whether that is its own, too.
  bool keeps_order() const { return order_.empty(); }
  /// The rank here of the group's member `place`.
  int rank_of_member(std::size_t place) const {
    return order_.empty() ? static_cast<int>(place) : order_[place];
  }
  /// As which member of the group this rank comes.
  std::size_t own_place() const { return own_place_; }

  /// What is recorded of it; null: nothing, as of one rank alone.
  const std::shared_ptr<WatchedGroup>& watched() const { return watched_; }

  /// Why its collectives are not carried now.
  Reason reason() const { return reason_.load(std::memory_order_relaxed); }
  /// Counts a blocking collective. Why it cannot be carried: the same on all ranks. The third of a
  /// communicator makes the group, together with all ranks.
  Reason admit(Groups& groups);
  /// What was counted last did not take place.
  void take_back() {
    if (reason() == Reason::early) --calls_;
  }
  /// Once admit() has let something through.
  ProcessGroup& group() { return group_->group; }
  /// An error has left the ranks out of step: the rest is MPI's, on all communicators that share
  /// the group.
  void give_up() { group_->is_given_up = true; }

 private:
  /// Until then making a group is hardly paid back.
  static constexpr std::uint32_t free_calls = 2;

  Reason find_reason();
  void find_world_ranks();
  void find_order();
  std::vector<int> members() const;
  Reason open(Groups& groups);

  MPI_Comm comm_;
  int rank_ = 0;
  int size_ = 0;
  std::size_t hosts_ = 1;
  std::vector<int> world_ranks_{};
  std::vector<int> order_{};  ///< empty: members come as the ranks here do
  std::size_t own_place_ = 0;
  std::atomic<Reason> reason_;
  std::uint32_t calls_ = 0;
  GroupLease group_{};
  std::shared_ptr<WatchedGroup> watched_{};
};

/// Communicators of the program by their handles: an attribute of each.
class Communicators {
 public:
  /// MPI is up. `watch`: as of Communicator.
  explicit Communicators(Watch* watch);
  /// Null for MPI_COMM_NULL, and where MPI refuses.
  Communicator* find(MPI_Comm comm);
  /// Before MPI ends.
  void end();

 private:
  Communicator* look(MPI_Comm comm);
  static int forget(MPI_Comm comm, int key, void* value, void* extra);
  static void end_freed();

  Watch* watch_;
  int key_ = MPI_KEYVAL_INVALID;
  std::mutex making_{};  ///< two threads may meet a communicator at the same time
};

}  // namespace hymn::preload
