#include "training/bucket_queue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

namespace hymn::training::detail {
namespace {

void wait_for(InFlight one, bool also_on_stream) {
  if (!one.is_on_stream || also_on_stream) return one.work.wait();
  // It may have failed.
  (void)one.work.test();
  if (const auto error = one.work.error()) std::rethrow_exception(error);
}

}  // namespace

BucketQueue::BucketQueue(std::shared_ptr<const Model> model, const GradientPlaces& places,
                         const std::vector<std::vector<std::size_t>>& parameters,
                         std::shared_ptr<const CommHook> hook)
    : hook_(std::move(hook)), places_(model->size()) {
  for (const std::vector<std::size_t>& some : parameters) {
    buckets_.push_back(std::make_shared<const Bucket>(model, places, some, buckets_.size()));
    for (std::size_t slot = 0; slot < some.size(); ++slot)
      places_[some[slot]] = {buckets_.size() - 1, slot};
  }
  missing_.resize(size());
  started_.resize(size());
}

BufferView BucketQueue::gradient(std::size_t parameter) const {
  const Place& place = places_[parameter];
  const Bucket& bucket = *buckets_[place.bucket];
  return bucket.part(bucket.slots()[place.slot]);
}

void BucketQueue::begin(Averaging averaging) {
  averaging_ = std::make_shared<Averaging>(std::move(averaging));
  next_ = 0;
  for (std::size_t i = 0; i < size(); ++i) {
    missing_[i] = buckets_[i]->slots().size();
    started_[i].reset();
  }
}

void BucketQueue::note_ready(std::size_t parameter) {
  if (--missing_[places_[parameter].bucket] == 0) start_full_ones();
}

void BucketQueue::start_full_ones() {
  // One whose hook has thrown is not tried again.
  while (next_ < size() && missing_[next_] == 0) {
    const std::size_t bucket = next_++;
    started_[bucket] = start(bucket);
  }
}

Future<BufferView> BucketQueue::start(std::size_t bucket) {
  const std::shared_ptr<const Bucket>& one = buckets_[bucket];
  auto part = std::make_shared<BucketPart>();
  part->index = bucket;
  part->is_last = bucket + 1 == size();
  part->bucket = one;
  part->averaging = averaging_;
  part->buffer = one->buffer();
  part->owner = one->memory();
  try {
    return (*hook_)(GradBucket(std::move(part)));
  } catch (const std::exception& error) {
    // The other ranks wait for what this one does not begin.
    averaging_->places->abort(
        fmt::format("the hook of bucket {} has failed: {}", bucket, error.what()));
    throw;
  }
}

// What has been chained may start more.
void BucketQueue::step() {
  std::vector<InFlight>& all = averaging_->in_flight;
  for (std::size_t i = 0; i < all.size(); ++i) {
    Work work = all[i].work;
    if (!work.test()) return;
  }
}

bool BucketQueue::are_all_there() const {
  return std::ranges::all_of(started_, [](const auto& future) { return future->is_ready(); });
}

std::vector<BufferView> BucketQueue::wait() {
  for (std::size_t bucket = 0; bucket < size(); ++bucket)
    if (!started_[bucket])
      throw UsageError(
          fmt::format("bucket {} is not reduced, as a hook has failed", bucket),
          {.operation = "GradientReducer::finish()",
           .remedy = "make a new group, and a new reducer, after what ready() throws"});
  // A future of a hook's own moves nothing: whoever waits for it does. What has been chained may
  // start more.
  std::vector<InFlight>& all = averaging_->in_flight;
  for (const bool waits_for_streams : {false, true}) {
    if (waits_for_streams && are_all_there()) break;
    for (std::size_t i = 0; i < all.size(); ++i) {
      wait_for(InFlight(all[i]), waits_for_streams);
    }
  }
  std::vector<BufferView> results;
  for (std::size_t bucket = 0; bucket < size(); ++bucket) {
    results.push_back(started_[bucket]->get());
    require_fitting(results.back(), buckets_[bucket]->buffer(), bucket);
  }
  return results;
}

}  // namespace hymn::training::detail
