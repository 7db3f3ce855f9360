#include "training/bucket.hpp"

namespace hymn::training {
namespace detail {

Bucket::Bucket(std::shared_ptr<const Model> model, std::span<const std::size_t> parameters)
    : model_(std::move(model)) {
  std::size_t count = 0;
  for (const std::size_t parameter : parameters) {
    slots_.push_back({parameter, count});
    count += (*model_)[parameter].data.count;
  }
  const DataType dtype = (*model_)[parameters.front()].data.dtype;
  memory_ = std::make_shared<SharedBuffer>(count * size_of(dtype));
  buffer_ = BufferView(memory_->data(), count, dtype);
}

BufferView Bucket::part(const BufferView& all, const Slot& slot) const {
  const BufferView& data = (*model_)[slot.parameter].data;
  BufferView part = all.slice(slot.offset, data.count);
  part.shape = data.shape;
  part.strides = data.strides;
  return part;
}

Work BucketPart::average(BufferView what) const {
  Work work = averaging->group.all_reduce_async(what, averaging->op);
  // The reducer may be gone before it is over.
  (void)work.then([kept = owner](const std::vector<BufferView>&) {});
  averaging->works.push_back(work);
  return work;
}

}  // namespace detail

std::size_t GradBucket::index() const { return part_->index; }
bool GradBucket::is_last() const { return part_->is_last; }
BufferView GradBucket::buffer() const { return part_->buffer; }
const ProcessGroup& GradBucket::group() const { return part_->averaging->group; }
int GradBucket::divisor() const { return part_->averaging->divisor; }
Work GradBucket::average(BufferView buffer) const { return part_->average(buffer); }

std::vector<std::size_t> GradBucket::parameters() const {
  std::vector<std::size_t> parameters;
  for (const detail::Slot& slot : part_->bucket->slots()) parameters.push_back(slot.parameter);
  return parameters;
}

BufferView GradBucket::gradient(std::size_t i) const {
  return part_->bucket->part(part_->buffer, part_->bucket->slots().at(i));
}

GradBucket GradBucket::with_buffer(BufferView buffer, std::shared_ptr<void> owner) const {
  auto part = std::make_shared<detail::BucketPart>(*part_);
  part->buffer = buffer;
  part->owner = std::move(owner);
  return GradBucket(std::move(part));
}

}  // namespace hymn::training
