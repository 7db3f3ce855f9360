// Communicators that no group uses any more, and which of them another group may use.
//
// One that still holds anything of its old group must never be another's: what was sent there would
// be received here. So each member says, of those that it could give, what it has counted
// (mpi_traffic.hpp). Where not all have called the same collectives, nobody uses it again; where
// messages are left, each member hears how many were sent to it, and takes them away first.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/meeting.hpp"
#include "p2p/mpi/mpi_channel.hpp"

namespace hymn {

class ParkedCommunicators {
 public:
  struct Parked {
    std::uint64_t id = 0;  ///< uid of the group it was made for, the same on all its ranks
    std::shared_ptr<const MpiChannel> channel{};  ///< of the group that had it last
    int vain = 0;  ///< how often it was offered, and not all members could give it
  };
  /// That which all members choose.
  struct Choice {
    std::uint64_t id = 0;
    std::uint64_t left = 0;  ///< messages that nobody has received
  };

  /// Of those members: sets aside for the group `uid` all that there are, and tells of them.
  void offer(Packer& packer, std::uint64_t uid, const std::vector<int>& ranks);
  /// From what the members have offered, by each of them alike.
  static std::optional<Choice> choose(std::span<const std::vector<std::uint64_t>> offers);
  /// Drops those, of what is set aside, that will not be chosen any more: members have called
  /// different collectives over them, or some have not had them for many times.
  void forget_vain(std::uint64_t uid, std::span<const std::vector<std::uint64_t>> offers);
  /// How many messages this rank has sent to each member over what was chosen.
  void tell_sent(Packer& packer, std::uint64_t uid, const Choice& choice);
  /// What was chosen; the rest goes back.
  Parked take(std::uint64_t uid, const std::vector<int>& ranks, const Choice& choice);
  /// All that was set aside.
  void give_back(std::uint64_t uid, const std::vector<int>& ranks);
  void park(const std::vector<int>& ranks, Parked parked);

  /// Takes away the messages that are there for this rank: `sent` to it in all. Returns their
  /// number. `step` is called while it waits, and throws when it has been too long.
  static std::uint64_t clear(const MpiChannel& channel, std::uint64_t sent,
                             const std::function<void()>& step);

  /// See Mechanism::left_over().
  std::uint64_t left_over(int rank);
  std::size_t count();
  /// All there are, in an order that is the same on all ranks.
  std::vector<MPI_Comm> release();

 private:
  std::mutex mutex_;
  std::map<std::vector<int>, std::vector<Parked>> parked_;
  std::map<std::uint64_t, std::vector<Parked>> set_aside_;  ///< by the uid of the group to come
  std::uint64_t forgotten_ = 0;                             ///< 0: nothing was
};

}  // namespace hymn
