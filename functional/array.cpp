#include "hymn/array.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "functional/fail.hpp"
#include "functional/layout.hpp"
#include "functional/recorder.hpp"
#include "functional/storage.hpp"

namespace hymn {

using functional::detail::copied;
using functional::detail::is_row_major;
using functional::detail::listed;
using functional::detail::Recorder;
using functional::detail::refuse;
using functional::detail::row_major;
using functional::detail::Storage;

namespace functional::detail {

void require_access(DataType asked, std::size_t dimensions_asked, DataType there,
                    std::size_t dimensions_there) {
  if (asked != there)
    refuse("Array", "elements of " + std::string(to_string(there)) + " are not " +
                        std::string(to_string(asked)));
  if (dimensions_asked != dimensions_there)
    refuse("Array", std::to_string(dimensions_asked) + " indices for an array of " +
                        std::to_string(dimensions_there) + " dimensions");
}

}  // namespace functional::detail

namespace {

void require_spec(const ArraySpec& spec) {
  if (size_of(spec.dtype) == 0)
    refuse("Array", "arrays of " + std::string(to_string(spec.dtype)) + " are not there",
           "arrays have elements of a known type");
  for (const std::int64_t size : spec.shape)
    if (size < 0) refuse("Array", "the shape " + listed(spec.shape) + " has a negative size");
}

Shape shape_of(const BufferView& view) {
  if (view.shape.empty()) return {static_cast<std::int64_t>(view.count)};
  return {view.shape.begin(), view.shape.end()};
}

std::shared_ptr<Storage> borrowed(const BufferView& view, std::shared_ptr<void> owner) {
  return std::make_shared<Storage>(static_cast<std::byte*>(view.data), view.memory,
                                   std::move(owner));
}

/// A size of -1 is what is left for it.
void infer_size(Shape& shape, std::int64_t count) {
  const auto unknown = std::find(shape.begin(), shape.end(), -1);
  if (unknown == shape.end()) return;
  std::int64_t known = 1;
  for (auto size = shape.begin(); size != shape.end(); ++size)
    if (size != unknown) known *= *size;
  if (known > 0 && count % known == 0) *unknown = count / known;
}

}  // namespace

Array::Array(std::shared_ptr<Storage> storage, ArraySpec spec, Shape strides, std::int64_t offset)
    : storage_(std::move(storage)),
      shape_(std::move(spec.shape)),
      strides_(std::move(strides)),
      offset_(offset),
      dtype_(spec.dtype) {}

Array Array::empty(Shape shape, DataType dtype) {
  ArraySpec spec{std::move(shape), dtype};
  require_spec(spec);
  Shape strides = row_major(spec.shape);
  std::shared_ptr<Storage> storage = Storage::of_bytes(spec.bytes());
  return {std::move(storage), std::move(spec), std::move(strides), 0};
}

Array Array::zeros(Shape shape, DataType dtype) {
  Array array = empty(std::move(shape), dtype);
  std::memset(array.storage_->data(), 0, array.spec().bytes());
  return array;
}

Array Array::meta(Shape shape, DataType dtype) {
  ArraySpec spec{std::move(shape), dtype};
  require_spec(spec);
  Shape strides = row_major(spec.shape);
  return {Storage::of_meta(), std::move(spec), std::move(strides), 0};
}

Array Array::borrow(const BufferView& view, std::shared_ptr<void> owner) {
  ArraySpec spec{shape_of(view), view.dtype};
  require_spec(spec);
  Shape strides = view.strides.empty() ? row_major(spec.shape)
                                       : Shape(view.strides.begin(), view.strides.end());
  if (strides.size() != spec.shape.size())
    refuse("Array", "a shape of " + std::to_string(spec.shape.size()) + " sizes, and " +
                        std::to_string(strides.size()) + " strides");
  return {borrowed(view, std::move(owner)), std::move(spec), std::move(strides), 0};
}

Array Array::borrow(const BufferView& view, Shape shape, std::shared_ptr<void> owner) {
  ArraySpec spec{std::move(shape), view.dtype};
  require_spec(spec);
  require_count(view.count, static_cast<std::size_t>(spec.count()));
  Shape strides = row_major(spec.shape);
  return {borrowed(view, std::move(owner)), std::move(spec), std::move(strides), 0};
}

bool Array::is_meta() const { return storage_ != nullptr && storage_->is_meta(); }

bool Array::is_pending() const {
  return storage_ != nullptr && storage_->flight() != nullptr && !storage_->flight()->is_over();
}

std::int64_t Array::size(std::int64_t dimension) const { return shape_[dimension_at(dimension)]; }

MemoryKind Array::memory() const {
  return storage_ == nullptr ? MemoryKind::host : storage_->memory();
}

bool Array::is_contiguous() const { return is_row_major(shape_, strides_); }

Array Array::view(Shape shape) const {
  require_valid();
  infer_size(shape, count());
  ArraySpec spec{std::move(shape), dtype_};
  require_spec(spec);
  if (spec.count() != count())
    refuse("Array::view", listed(spec.shape) + " has not as many elements as " + listed(shape_));
  if (!is_contiguous())
    refuse("Array::view", "the elements of the array do not lie one after the other",
           "reshape() copies them");
  Shape strides = row_major(spec.shape);
  return {storage_, std::move(spec), std::move(strides), offset_};
}

Array Array::transpose(std::int64_t one, std::int64_t other) const {
  Array result = *this;
  const std::size_t a = dimension_at(one);
  const std::size_t b = dimension_at(other);
  std::swap(result.shape_[a], result.shape_[b]);
  std::swap(result.strides_[a], result.strides_[b]);
  return result;
}

Array Array::permute(std::span<const std::int64_t> order) const {
  Array result = *this;
  std::vector<bool> seen(dimensions());
  if (order.size() != dimensions())
    refuse("Array::permute",
           listed(order) + " does not order " + std::to_string(dimensions()) + " dimensions");
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t from = dimension_at(order[i]);
    if (seen[from]) refuse("Array::permute", listed(order) + " has a dimension twice");
    seen[from] = true;
    result.shape_[i] = shape_[from];
    result.strides_[i] = strides_[from];
  }
  return result;
}

Array Array::narrow(std::int64_t dimension, std::int64_t start, std::int64_t length) const {
  Array result = *this;
  const std::size_t d = dimension_at(dimension);
  if (start < 0 || length < 0 || start > shape_[d] - length)
    refuse("Array::narrow", std::to_string(length) + " indices from " + std::to_string(start) +
                                " on are not in a dimension of " + std::to_string(shape_[d]));
  result.offset_ += start * strides_[d];
  result.shape_[d] = length;
  return result;
}

Array Array::select(std::int64_t dimension, std::int64_t index) const {
  const auto d = static_cast<std::ptrdiff_t>(dimension_at(dimension));
  Array result = narrow(d, index, 1);
  result.shape_.erase(result.shape_.begin() + d);
  result.strides_.erase(result.strides_.begin() + d);
  return result;
}

Array Array::unflatten(std::int64_t dimension, std::int64_t outer) const {
  const std::size_t d = dimension_at(dimension);
  if (outer <= 0 || shape_[d] % outer != 0)
    refuse("Array::unflatten", "a dimension of " + std::to_string(shape_[d]) + " has not " +
                                   std::to_string(outer) + " equal parts");
  Array result = *this;
  const std::int64_t inner = shape_[d] / outer;
  result.shape_[d] = inner;
  const auto at = static_cast<std::ptrdiff_t>(d);
  result.shape_.insert(result.shape_.begin() + at, outer);
  result.strides_.insert(result.strides_.begin() + at, strides_[d] * inner);
  return result;
}

Array Array::as_strided(Shape shape, Shape strides, std::int64_t offset) const {
  require_valid();
  return {storage_, {std::move(shape), dtype_}, std::move(strides), offset_ + offset};
}

Array Array::contiguous() const { return is_contiguous() ? *this : clone(); }

Array Array::reshape(Shape shape) const { return contiguous().view(std::move(shape)); }

Array Array::clone() const {
  wait();
  Array result = copied(*this);
  if (Recorder* recorder = Recorder::current()) recorder->record_copy(*this, result);
  return result;
}

void Array::wait() const {
  require_valid();
  const std::shared_ptr<functional::detail::Flight>& flight = storage_->flight();
  if (flight == nullptr) return;
  if (Recorder* recorder = Recorder::current(); recorder != nullptr && !flight->is_over())
    recorder->record_wait(*flight);
  flight->wait();
}

const void* Array::data() const {
  wait();
  if (is_meta())
    refuse("Array", "a meta array has no elements", "it has a shape and a dtype alone");
  return storage_->data() + offset_ * static_cast<std::int64_t>(size_of(dtype_));
}

void* Array::mutable_data() const {
  const void* elements = data();
  if (storage_->is_read_only())
    refuse("Array", "the memory of this array must not be written to", "clone() it");
  if (Recorder* recorder = Recorder::current()) recorder->forget(*storage_);
  return const_cast<void*>(elements);
}

BufferView Array::buffer() const {
  BufferView view(const_cast<void*>(data()), static_cast<std::size_t>(count()), dtype_, memory());
  view.shape = shape_;
  view.strides = strides_;
  return view;
}

void Array::require_count(std::size_t given, std::size_t wanted) {
  if (given != wanted)
    refuse("Array", std::to_string(given) + " elements for a shape of " + std::to_string(wanted));
}

void Array::require_valid() const {
  if (storage_ == nullptr) refuse("Array", "the array is empty: it has neither shape nor dtype");
}

void Array::require_host_access(DataType asked, bool contiguously) const {
  require_valid();
  functional::detail::require_access(asked, 0, dtype_, 0);
  if (memory() == MemoryKind::device)
    refuse("Array", "its elements are in the memory of a GPU, which the host cannot reach");
  if (contiguously && !is_contiguous())
    refuse("Array", "its elements do not lie one after the other",
           "contiguous() copies them, and span() and at() know strides");
}

std::size_t Array::dimension_at(std::int64_t dimension) const {
  require_valid();
  const auto dimensions = static_cast<std::int64_t>(shape_.size());
  if (dimension < -dimensions || dimension >= dimensions)
    refuse("Array", "an array of " + std::to_string(dimensions) + " dimensions has no dimension " +
                        std::to_string(dimension));
  return static_cast<std::size_t>(dimension < 0 ? dimension + dimensions : dimension);
}

std::int64_t Array::offset_of(std::span<const std::int64_t> indices) const {
  functional::detail::require_access(dtype_, indices.size(), dtype_, shape_.size());
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0 || indices[i] >= shape_[i])
      refuse("Array::at", "there is no element " + listed(indices) + " in " + listed(shape_));
    offset += indices[i] * strides_[i];
  }
  return offset;
}

}  // namespace hymn
