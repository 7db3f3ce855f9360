// What can be seen of the other ranks of a world before they have told each other who they are.
#pragma once

#include <string>
#include <vector>

#include "control/launched_ranks.hpp"

namespace hymn {

/// Not thread-safe.
class EarlySight {
 public:
  /// `launched`: of each rank of the world, which one of the job it is; `size`: of the job.
  EarlySight(std::vector<int> launched, int size) : launched_(std::move(launched)), job_(size) {}

  /// Its process was on this host, and is not there any more.
  bool has_ended(int rank) { return job_.has_ended(launched(rank)); }
  /// As Company::tell_of.
  std::string tell_of(int rank);

 private:
  int launched(int rank) const { return launched_[static_cast<std::size_t>(rank)]; }

  std::vector<int> launched_;
  LaunchedRanks job_;
};

}  // namespace hymn
