// Where the ranks of a fake world would be.
#pragma once

#include <mutex>
#include <span>

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
  GroupLayout layout_of(std::span<const int> members) const {
    const std::lock_guard lock(mutex_);
    return places_.layout_of(members);
  }

 private:
  mutable std::mutex mutex_;
  mutable ImaginedPlaces places_;
};

}  // namespace hymn
