#include "training/bucket.hpp"

#include <fmt/format.h>

#include <mutex>

#include "training/nan_search.hpp"

namespace hymn::training {
namespace detail {

namespace {

/// "bucket 3 (conv1.weight and 5 more)"
CallSite site_of(const Model& model, std::span<const std::size_t> parameters, std::size_t index) {
  const std::size_t more = parameters.size() - 1;
  return call_site(fmt::format("bucket {} ({}{})", index, model[parameters.front()].name,
                               more == 0 ? "" : fmt::format(" and {} more", more)));
}

/// Where a NaN is what a call was refused for.
void name_nan(const Bucket& bucket, const Error& refused) {
  const auto memory = bucket.place().read(bucket.buffer());
  BufferView readable = bucket.buffer();
  readable.data = const_cast<void*>(memory.get());
  for (const Slot& slot : bucket.slots())
    if (const auto element =
            first_nan(readable.slice(slot.offset, bucket.model()[slot.parameter].data.count)))
      throw UsageError(fmt::format("element {} of the gradient of {} is a NaN: {}", *element,
                                   bucket.model().name_of(slot.parameter), refused.problem()),
                       {.operation = "GradientReducer",
                        .remedy = "find out where it comes from; or do without the check "
                                  "(HYMN_NAN_CHECK=0)"});
}

}  // namespace

Bucket::Bucket(std::shared_ptr<const Model> model, const GradientPlaces& places,
               std::span<const std::size_t> parameters, std::size_t index)
    : model_(std::move(model)),
      place_(places[model_->gpu_of(parameters.front())]),
      site_(site_of(*model_, parameters, index)) {
  std::size_t count = 0;
  for (const std::size_t parameter : parameters) {
    slots_.push_back({parameter, count});
    count += (*model_)[parameter].data.count;
  }
  const DataType dtype = (*model_)[parameters.front()].data.dtype;
  memory_ = place_->allocate(count * size_of(dtype));
  buffer_ = BufferView(memory_.get(), count, dtype, place_->kind());
}

BufferView Bucket::part(const BufferView& all, const Slot& slot) const {
  const BufferView& data = (*model_)[slot.parameter].data;
  BufferView part = all.slice(slot.offset, data.count);
  part.shape = data.shape;
  part.strides = data.strides;
  return part;
}

void Averaging::abandon() {
  static auto& kept = *new std::vector<std::shared_ptr<void>>;  // until the process ends
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  for (InFlight& one : in_flight)
    if (one.work.error() && one.work.path().starts_with("mpi")) kept.push_back(one.owner);
  in_flight.clear();
}

void require_fitting(const BufferView& given, const BufferView& own, std::size_t bucket) {
  const bool is_there = given.data != nullptr || own.count == 0;
  if (is_there && given.count == own.count && given.dtype == own.dtype &&
      given.memory == own.memory)
    return;
  throw UsageError(
      fmt::format("a hook has made {} of bucket {}, which has {} elements of {}",
                  is_there ? fmt::format("{} elements of {}", given.count, to_string(given.dtype))
                           : std::string("nothing"),
                  bucket, own.count, to_string(own.dtype)),
      {.operation = "GradientReducer::finish()", .remedy = "give back what it was given"});
}

Work BucketPart::average(BufferView what, std::shared_ptr<void> its_owner) const {
  if (!its_owner) its_owner = owner;
  const GradientPlace& place = bucket->place();
  void* const stream = place.averages();
  Work work;
  try {
    work = ProcessGroup(place.group())
               .all_reduce_async(what, averaging->op, {.stream = stream, .site = bucket->site()});
  } catch (const UsageError& refused) {
    name_nan(*bucket, refused);
    throw;
  }
  // The reducer may be gone before it is over.
  (void)work.then([its_owner](const std::vector<BufferView>&) {});
  averaging->in_flight.push_back({work, std::move(its_owner), stream != nullptr});
  return work;
}

}  // namespace detail

std::size_t GradBucket::index() const { return part_->index; }
bool GradBucket::is_last() const { return part_->is_last; }
BufferView GradBucket::buffer() const { return part_->buffer; }
const ProcessGroup& GradBucket::group() const { return part_->bucket->place().group(); }
void* GradBucket::stream() const { return part_->bucket->place().averages(); }
int GradBucket::divisor() const { return part_->averaging->divisor; }
Work GradBucket::average(BufferView buffer, std::shared_ptr<void> owner) const {
  return part_->average(buffer, std::move(owner));
}

std::vector<std::size_t> GradBucket::parameters() const {
  std::vector<std::size_t> parameters;
  for (const detail::Slot& slot : part_->bucket->slots()) parameters.push_back(slot.parameter);
  return parameters;
}

BufferView GradBucket::gradient(std::size_t i) const {
  return part_->bucket->part(part_->buffer, part_->bucket->slots().at(i));
}

GradBucket GradBucket::with_buffer(BufferView buffer, std::shared_ptr<void> owner) const {
  BufferView own = part_->buffer;
  own.dtype = buffer.dtype;
  detail::require_fitting(buffer, own, index());
  auto part = std::make_shared<detail::BucketPart>(*part_);
  part->buffer = buffer;
  part->owner = std::move(owner);
  return GradBucket(std::move(part));
}

}  // namespace hymn::training
