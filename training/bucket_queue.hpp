// The buckets of a reducer: which of them are full, and their reductions, which begin on all ranks
// in the same order.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "training/bucket.hpp"

namespace hymn::training::detail {

class BucketQueue {
 public:
  BucketQueue(std::shared_ptr<const Model> model, const GradientPlaces& places,
              const std::vector<std::vector<std::size_t>>& parameters,
              std::shared_ptr<const CommHook> hook);

  std::size_t size() const { return buckets_.size(); }
  const Bucket& operator[](std::size_t bucket) const { return *buckets_[bucket]; }
  /// Where that parameter's gradient lies in its bucket.
  BufferView gradient(std::size_t parameter) const;
  /// What keeps that.
  std::shared_ptr<void> memory_of(std::size_t parameter) const {
    return buckets_[places_[parameter].bucket]->memory();
  }

  /// For an iteration, in which nothing is full yet.
  void begin(Averaging averaging);
  /// One gradient more is in its place. What is full begins, unless buckets before it are not.
  void note_ready(std::size_t parameter);
  /// Moves what is in flight.
  void step();
  /// Waits for all that is in flight, but for what is on streams, where a hook does not wait for
  /// it: where each bucket's results are, or will be for who comes after that. All are full.
  std::vector<BufferView> wait();
  /// Of this iteration.
  const Averaging& averaging() const { return *averaging_; }
  /// Something else of this iteration is in flight.
  void note(InFlight one) { averaging_->in_flight.push_back(std::move(one)); }
  /// After a failure, for which the group has been given up.
  void abandon() {
    if (averaging_) averaging_->abandon();
  }

 private:
  struct Place {
    std::size_t bucket = 0;
    std::size_t slot = 0;
  };
  void start_full_ones();
  bool are_all_there() const;
  Future<BufferView> start(std::size_t bucket);

  std::shared_ptr<const CommHook> hook_;
  std::vector<std::shared_ptr<const Bucket>> buckets_;
  std::vector<Place> places_;         // of parameters
  std::vector<std::size_t> missing_;  // of each bucket, so many gradients
  std::vector<std::optional<Future<BufferView>>> started_;
  std::size_t next_ = 0;
  std::shared_ptr<Averaging> averaging_;
};

}  // namespace hymn::training::detail
