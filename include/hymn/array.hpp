// Arrays for functional collectives: memory with a shape, strides and a dtype, which may be the
// result of a call that is still in flight. They belong to libhymn-functional (hymn::functional).
#pragma once

#include "hymn/standard.hpp"  // first

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "hymn/buffer.hpp"
#include "hymn/error.hpp"
#include "hymn/export.hpp"
#include "hymn/standard_parts.hpp"
#include "hymn/types.hpp"

namespace hymn {

namespace functional::detail {
class Storage;
HYMN_API void require_access(DataType asked, std::size_t dimensions_asked, DataType there,
                             std::size_t dimensions_there);
}  // namespace functional::detail

using Shape = std::vector<std::int64_t>;

/// What is known of an array without its memory.
struct ArraySpec {
  Shape shape{};
  DataType dtype = DataType::float32;

  std::int64_t count() const {
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    return count;
  }
  std::size_t bytes() const { return static_cast<std::size_t>(count()) * size_of(dtype); }
  friend bool operator==(const ArraySpec&, const ArraySpec&) = default;
};

/// As std::mdspan with a strided layout: elements of the host, by their indices. It owns nothing,
/// and checks nothing.
template <class T, std::size_t Dimensions>
class StridedSpan {
 public:
  StridedSpan(T* data, std::span<const std::int64_t> shape, std::span<const std::int64_t> strides)
      : data_(data) {
    for (std::size_t i = 0; i < Dimensions; ++i) {
      shape_[i] = shape[i];
      strides_[i] = strides[i];
    }
  }
  std::int64_t extent(std::size_t dimension) const { return shape_[dimension]; }
  template <std::integral... Index>
    requires(sizeof...(Index) == Dimensions)
  T& operator()(Index... index) const {
    const std::array<std::int64_t, Dimensions> indices{static_cast<std::int64_t>(index)...};
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < Dimensions; ++i) offset += indices[i] * strides_[i];
    return data_[offset];
  }

 private:
  T* data_;
  std::array<std::int64_t, Dimensions> shape_{};
  std::array<std::int64_t, Dimensions> strides_{};
};

/// A handle to elements in memory, with a shape and strides (in elements); copies and views share
/// the memory, which lives as long as any of them. A *meta* array has a shape and a dtype alone.
///
/// What a functional collective returns is *pending*: the call is in flight. The first look at its
/// elements, through any handle or view, waits for it, once; its shape and dtype do not wait. If
/// the call fails, each look throws its error. When the last handle is dropped without a look, the
/// call is waited for then, as its memory goes, which is told at HYMN_LOG_LEVEL=info; when an
/// exception drops it, nobody waits, and the memory stays.
///
/// Dimensions may be counted from the end: -1 is the last. Faults are a UsageError. Handles of one
/// array may be used by several threads, elements as the program keeps them apart.
class HYMN_API Array {
 public:
  Array() = default;

  /// Memory of its own, whose contents are not set.
  static Array empty(Shape shape, DataType dtype);
  /// All bytes 0.
  static Array zeros(Shape shape, DataType dtype);
  template <Element T>
  static Array full(Shape shape, T value) {
    Array array = empty(std::move(shape), data_type_of<T>);
    for (T& element : array.mutable_values<T>()) element = value;
    return array;
  }
  /// A copy of these elements; as one dimension, or in the shape, the last dimension fastest.
  template <Element T>
  static Array from(std::span<const T> elements, Shape shape = {}) {
    if (shape.empty()) shape = {static_cast<std::int64_t>(elements.size())};
    Array array = empty(std::move(shape), data_type_of<T>);
    const std::span<T> own = array.mutable_values<T>();
    require_count(elements.size(), own.size());
    for (std::size_t i = 0; i < own.size(); ++i) own[i] = elements[i];
    return array;
  }
  template <Element T>
  static Array from(std::initializer_list<T> elements, Shape shape = {}) {
    return from(std::span<const T>(elements.begin(), elements.size()), std::move(shape));
  }
  /// The program's memory, in the shape and strides of the view if it has any. It must stay until
  /// no handle and no call uses it: `owner` lives that long.
  static Array borrow(const BufferView& view, std::shared_ptr<void> owner = nullptr);
  /// The same, in a shape of its own, the last dimension fastest.
  static Array borrow(const BufferView& view, Shape shape, std::shared_ptr<void> owner = nullptr);
  /// Shape and dtype alone.
  static Array meta(Shape shape, DataType dtype);
  static Array meta(const ArraySpec& spec) { return meta(spec.shape, spec.dtype); }

  // --- What it is. Nothing here waits.

  bool valid() const noexcept { return storage_ != nullptr; }
  bool is_meta() const;
  /// Nobody has looked at it yet: the call that makes it may be in flight.
  bool is_pending() const;
  const Shape& shape() const { return shape_; }
  const Shape& strides() const { return strides_; }
  std::size_t dimensions() const { return shape_.size(); }
  std::int64_t size(std::int64_t dimension) const;
  std::int64_t count() const { return spec().count(); }
  DataType dtype() const { return dtype_; }
  MemoryKind memory() const;
  ArraySpec spec() const { return {shape_, dtype_}; }
  /// Its elements lie one after the other, the last dimension fastest.
  bool is_contiguous() const;

  // --- Views of the same memory. They do not wait, either.

  /// Of a contiguous array; one size may be -1, and follows from the others.
  Array view(Shape shape) const;
  Array transpose(std::int64_t one, std::int64_t other) const;
  /// Dimension i of the result is dimension order[i].
  Array permute(std::span<const std::int64_t> order) const;
  Array permute(std::initializer_list<std::int64_t> order) const {
    return permute(std::span<const std::int64_t>(order.begin(), order.size()));
  }
  /// `length` indices from `start` on.
  Array narrow(std::int64_t dimension, std::int64_t start, std::int64_t length) const;
  /// One index, without its dimension.
  Array select(std::int64_t dimension, std::int64_t index) const;
  /// Splits a dimension into one of `outer` indices and one of the rest.
  Array unflatten(std::int64_t dimension, std::int64_t outer) const;

  // --- Copies, which wait.

  /// Itself where it is contiguous: then it does not wait.
  Array contiguous() const;
  /// A view where there is one.
  Array reshape(Shape shape) const;
  Array clone() const;

  // --- Its elements. Waits, once; throws the error of the call that should have made them, and
  // UsageError for a meta array.

  void wait() const;
  const void* data() const;
  /// For writing. UsageError where the memory is read-only (DLPack).
  void* mutable_data() const;
  /// All of a contiguous array in the memory of the host.
  template <Element T>
  std::span<const T> values() const {
    require_host_access(data_type_of<T>, true);
    return {static_cast<const T*>(data()), static_cast<std::size_t>(count())};
  }
  template <Element T>
  std::span<T> mutable_values() const {
    require_host_access(data_type_of<T>, true);
    return {static_cast<T*>(mutable_data()), static_cast<std::size_t>(count())};
  }
  /// By indices: `auto a = x.span<const float, 2>(); a(0, 1)`.
  template <class T, std::size_t Dimensions>
    requires Element<std::remove_const_t<T>>
  StridedSpan<T, Dimensions> span() const {
    require_host_access(data_type_of<T>, false);
    functional::detail::require_access(data_type_of<T>, Dimensions, dtype_, shape_.size());
    if constexpr (std::is_const_v<T>)
      return {static_cast<T*>(data()), shape_, strides_};
    else
      return {static_cast<T*>(mutable_data()), shape_, strides_};
  }
  /// One element.
  template <Element T, std::integral... Index>
  T at(Index... index) const {
    const std::array<std::int64_t, sizeof...(Index)> indices{static_cast<std::int64_t>(index)...};
    require_host_access(data_type_of<T>, false);
    return static_cast<const T*>(data())[offset_of(indices)];
  }
  /// As a buffer, with shape and strides, which are those of this handle.
  BufferView buffer() const;

  /// A view of any layout: for who keeps within the memory, as captured programs do.
  Array as_strided(Shape shape, Shape strides, std::int64_t offset) const;

  // For hymn itself.
  Array(std::shared_ptr<functional::detail::Storage> storage, ArraySpec spec, Shape strides,
        std::int64_t offset);
  const std::shared_ptr<functional::detail::Storage>& storage() const { return storage_; }
  /// Where its first element is, counted from the beginning of the memory.
  std::int64_t offset() const { return offset_; }

 private:
  static void require_count(std::size_t given, std::size_t wanted);
  void require_valid() const;
  void require_host_access(DataType asked, bool contiguously) const;
  std::size_t dimension_at(std::int64_t dimension) const;
  std::int64_t offset_of(std::span<const std::int64_t> indices) const;

  std::shared_ptr<functional::detail::Storage> storage_;
  Shape shape_;
  Shape strides_;
  std::int64_t offset_ = 0;
  DataType dtype_ = DataType::float32;
};

}  // namespace hymn
