// The record of what a rank does in MPI, in the form of hymn's flight recorder: `hymn trace` reads
// it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "preload/persistent.hpp"
#include "preload/requests.hpp"
#include "recorder/outside_record.hpp"

namespace hymn::preload {

class Communicator;

/// What is recorded of one communicator.
struct WatchedGroup {
  std::uint64_t uid = 0;
  GroupLine* line = nullptr;
  /// Collectives that do not block, and have not ended.
  std::atomic<std::uint64_t> in_flight{0};
  /// The number of the one that blocks now; 0: none does.
  std::atomic<std::uint64_t> blocking{0};

  /// One of those in flight has ended: as soon as none is left, all have that were started.
  void end_one();
};

/// A process of the job, as its host numbers it.
struct RankProcess {
  std::int64_t pid = 0;
  std::int64_t host = 0;  ///< the lowest rank there
};

/// Thread-safe, its requests where threads of the program may overlap.
class Watch {
 public:
  Watch(const Config& config, int rank, std::vector<RankProcess> processes, std::uint64_t job,
        bool may_overlap);

  OutsideRecord& record() { return record_; }
  Requests& requests() { return requests_; }
  const Requests& requests() const { return requests_; }
  PersistentRequests& persistent() { return persistent_; }
  /// A communicator is seen for the first time: where it is made, or else at its first call. Those
  /// of the same ranks are told apart by their order.
  /// It is told of until the communicator and all that is in flight on it have let go.
  std::shared_ptr<WatchedGroup> add(MPI_Comm comm, const std::vector<int>& world_ranks);
  /// The program has given it another name.
  void rename(MPI_Comm comm, const WatchedGroup& group);

  /// What this rank knows of others: those of its host that have died.
  std::vector<DumpPeer> peers() const;
  std::string dump(std::string_view trigger, std::string_view reason) const {
    return record_.dump(trigger, reason, peers());
  }
  int rank() const { return rank_; }

 private:
  int rank_;
  std::vector<RankProcess> processes_;
  OutsideRecord record_;
  Requests requests_;
  PersistentRequests persistent_{};
  std::mutex mutex_;  // guards what follows
  std::map<std::vector<int>, std::uint64_t> made_;
};

}  // namespace hymn::preload
