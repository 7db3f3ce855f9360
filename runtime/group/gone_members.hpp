// The members of a group that are gone, and what that means for what is in flight.
#pragma once

#include <mutex>
#include <vector>

#include "control/peer_news.hpp"
#include "hymn/timeout.hpp"
#include "hymn/work.hpp"

namespace hymn {

/// An operation, as far as it matters who takes part in it.
struct PendingOp {
  OpType type = OpType::barrier;
  std::uint64_t sequence = 0;
  int peer = -1;  ///< of a send or receive: group rank, or any_source
  /// Of a batch: the peers of what is still in flight of it, and the number of the first of that.
  std::vector<int> peers{};
  std::uint64_t first_part = 0;
};

/// Thread-safe.
class GoneMembers {
 public:
  /// Members other than `me` of a group of `size`; `uid` is the group's.
  GoneMembers(std::uint64_t uid, int me, int size) : uid_(uid), me_(me), size_(size) {}

  /// The member is gone, or more is known of how.
  void note(int group_rank, const PeerNews& news, TimePoint now);
  /// It has come back: it was only lost.
  void forget(int group_rank);
  /// The members without whom the operation cannot complete; none while there is hope: that they
  /// have done their part, and it only has to be found.
  std::vector<PeerNews> missed_by(const PendingOp& op, TimePoint now) const;
  /// Those that have failed.
  std::vector<PeerNews> failed() const;
  /// Those that have left before they called this collective.
  std::vector<PeerNews> left_before(std::uint64_t sequence) const;

 private:
  struct Gone {
    int group_rank = -1;
    PeerNews news;
    TimePoint since;
  };
  /// Where it was in this group; null: nobody has said.
  const GroupMark* mark_of(const Gone& gone) const;
  bool is_missed(const Gone& gone, const PendingOp& op, TimePoint now) const;

  std::uint64_t uid_;
  int me_;
  int size_;
  mutable std::mutex mutex_;
  std::vector<Gone> gone_;
};

}  // namespace hymn
