// Where the ranks of a fake world would be.
#pragma once

#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/rank/arrival.hpp"
#include "topology/imagined_places.hpp"

namespace hymn {

/// Any thread may ask.
class FakeJob {
 public:
  explicit FakeJob(ImaginedPlaces places) : places_(std::move(places)) {}

  /// What that rank would say of itself.
  Arrival arrival_of(int rank) const;
  JobMap map_for(int rank) const {
    const std::lock_guard lock(mutex_);
    return places_.map_for(rank);
  }
  /// For one more group that these ranks make alone: the same on each of them.
  std::string name_group(const std::vector<int>& ranks) const;
  GroupLayout layout_of(std::span<const int> members) const {
    const std::lock_guard lock(mutex_);
    return places_.layout_of(members);
  }

 private:
  mutable std::mutex mutex_;
  mutable ImaginedPlaces places_;
  mutable std::map<std::vector<int>, int> groups_{};  ///< of these ranks, so far
};

}  // namespace hymn
