// The memory of gradients that are reduced together, and what hooks see of it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "hymn/gradient_reducer.hpp"
#include "training/gradient_places.hpp"
#include "training/model.hpp"

namespace hymn::training::detail {

/// Something that works on memory, and what keeps that.
struct InFlight {
  Work work;
  std::shared_ptr<void> owner;
  bool is_on_stream = false;  ///< which others wait for, and not the host
};

/// How an iteration averages, and what of that is in flight.
struct Averaging {
  std::shared_ptr<const GradientPlaces> places;
  ReduceOp op = ReduceOp::avg;
  int divisor = 1;
  std::vector<InFlight> in_flight{};

  /// After a failure. MPI may still write to what a failed call was given: that memory stays for
  /// ever.
  void abandon();
};

/// UsageError unless `given` can stand for `own`, of that bucket.
void require_fitting(const BufferView& given, const BufferView& own, std::size_t bucket);

/// One parameter's place in a bucket, in elements.
struct Slot {
  std::size_t parameter = 0;
  std::size_t offset = 0;
};

class Bucket {
 public:
  Bucket(std::shared_ptr<const Model> model, const GradientPlaces& places,
         std::span<const std::size_t> parameters, std::size_t index);

  const std::vector<Slot>& slots() const { return slots_; }
  const Model& model() const { return *model_; }
  /// Where all of it lies.
  const GradientPlace& place() const { return *place_; }
  /// By which calls for it are known.
  CallSite site() const { return site_; }
  /// All of it, flat.
  BufferView buffer() const { return buffer_; }
  /// What keeps it alive.
  const std::shared_ptr<void>& memory() const { return memory_; }
  /// That place in `all`, which is this bucket's buffer or laid out as it, in the parameter's
  /// shape.
  BufferView part(const BufferView& all, const Slot& slot) const;
  BufferView part(const Slot& slot) const { return part(buffer_, slot); }

 private:
  std::shared_ptr<const Model> model_;
  std::vector<Slot> slots_;
  std::shared_ptr<const GradientPlace> place_;
  std::shared_ptr<void> memory_;
  BufferView buffer_;
  CallSite site_;
};

/// What a GradBucket is a handle to.
class BucketPart {
 public:
  std::size_t index = 0;
  bool is_last = false;
  std::shared_ptr<const Bucket> bucket;
  std::shared_ptr<Averaging> averaging;
  BufferView buffer;            ///< the bucket's, or what a hook has put in its place
  std::shared_ptr<void> owner;  ///< of that

  Work average(BufferView what, std::shared_ptr<void> its_owner) const;
};

}  // namespace hymn::training::detail
