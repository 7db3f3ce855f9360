// The ranks of a job on this host, as they can be seen before any of them has said who it is: the
// processes that the same launcher has started, by the variables it has given them (those of PMIx,
// or of MPICH's Hydra).
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace hymn {

/// Ranks are those in MPI_COMM_WORLD. Not thread-safe. Where the launcher sets other variables, or
/// its processes cannot be looked at, nothing is known of anybody.
class LaunchedRanks {
 public:
  /// `size`: of MPI_COMM_WORLD. Looks at nothing yet.
  explicit LaunchedRanks(int size) : size_(size) {}

  /// Its process was started on this host, and is not there any more.
  bool has_ended(int rank);
  /// Its process has been seen, and is stopped; or one that runs in it, as in a shell.
  bool is_stopped(int rank) const;
  /// The process of a rank that has been seen; 0: none has been.
  int pid_of(int rank) const;

 private:
  void find_launcher();
  void look();

  using Clock = std::chrono::steady_clock;
  int size_;
  bool all_are_here_ = false;  ///< the whole job runs on this host
  int topmost_ = 0;            ///< this rank's process, or the first of those that it runs in
  int launcher_ = 0;
  const char* name_of_job_ = nullptr;  ///< the variables of this launcher
  const char* name_of_rank_ = nullptr;
  std::string job_;
  std::optional<Clock::time_point> last_look_;
  bool is_known_ = false;     ///< who is there, by the last look
  std::map<int, int> there_;  ///< by rank
  std::map<int, int> seen_;   ///< the same, once
  std::set<int> ended_;       ///< whoever has been found to be gone stays so
};

}  // namespace hymn
