// Non-owning, typed views of memory: what every collective reads and writes.
#pragma once

#include "hymn/standard.hpp"  // first

#include <cstdint>
#include <span>
#include <type_traits>

#include "hymn/standard_parts.hpp"
#include "hymn/types.hpp"

namespace hymn {

/// A view of `count` elements at `data`. It owns nothing: the memory must stay valid, and for an
/// asynchronous operation untouched, until the operation has completed.
///
/// `shape` and `strides` (in elements) may describe an n-dimensional array. A dense layout,
/// whatever the order of its dimensions (channels-last), is taken as it lies in memory; a layout
/// with gaps or overlaps is refused. Both empty: one dimension, contiguous.
template <class Pointer>
struct BasicBufferView {
  Pointer data = nullptr;
  std::size_t count = 0;
  DataType dtype = DataType::uint8;
  MemoryKind memory = MemoryKind::host;
  std::span<const std::int64_t> shape{};
  std::span<const std::int64_t> strides{};
  /// Set exactly when dtype is DataType::opaque or DataType::value.
  const OpaqueType* opaque = nullptr;

  constexpr BasicBufferView() = default;
  constexpr BasicBufferView(Pointer data_, std::size_t count_, DataType dtype_,
                            MemoryKind memory_ = MemoryKind::host)
      : data(data_), count(count_), dtype(dtype_), memory(memory_) {}

  /// From anything contiguous whose elements have a DataType: vector, array, span.
  template <std::ranges::contiguous_range Range>
    requires Element<std::ranges::range_value_t<Range>> &&
                 std::convertible_to<decltype(std::ranges::data(std::declval<Range&>())),
                                     Pointer> &&
                 (std::is_lvalue_reference_v<Range> || std::ranges::borrowed_range<Range>)
  constexpr BasicBufferView(Range&& range)  // NOLINT: a view of a range is that range
      : data(std::ranges::data(range)),
        count(std::ranges::size(range)),
        dtype(data_type_of<std::ranges::range_value_t<Range>>) {}

  /// Of a single element that has a name, for example a counter on the stack.
  template <Element T>
    requires std::convertible_to<T*, Pointer>
  constexpr BasicBufferView(T& element)  // NOLINT: as above
      : BasicBufferView(&element, 1, data_type_of<T>) {}

  /// A writable view is also a readable one.
  template <class Other>
    requires(!std::same_as<Other, Pointer> && std::convertible_to<Other, Pointer>)
  constexpr BasicBufferView(const BasicBufferView<Other>& other)  // NOLINT: as above
      : data(other.data),
        count(other.count),
        dtype(other.dtype),
        memory(other.memory),
        shape(other.shape),
        strides(other.strides),
        opaque(other.opaque) {}

  constexpr std::size_t element_bytes() const {
    return opaque != nullptr ? opaque->element_bytes : size_of(dtype);
  }
  constexpr std::size_t bytes() const { return count * element_bytes(); }

  /// `length` elements from `offset` on, as a flat view of the same memory.
  BasicBufferView slice(std::size_t offset, std::size_t length) const {
    using Byte =
        std::conditional_t<std::is_same_v<Pointer, const void*>, const std::byte, std::byte>;
    BasicBufferView part = *this;
    part.shape = {};
    part.strides = {};
    part.count = length;
    // A null view of nothing has no address to move.
    part.data = data == nullptr ? data : static_cast<Byte*>(data) + offset * element_bytes();
    return part;
  }
};

using BufferView = BasicBufferView<void*>;
using ConstBufferView = BasicBufferView<const void*>;

/// A view of a single element, where its name alone does not say so.
template <Element T>
BufferView view_of(T& element) {
  return BufferView(&element, 1, data_type_of<T>);
}
template <Element T>
ConstBufferView view_of(const T& element) {
  return ConstBufferView(&element, 1, data_type_of<T>);
}

}  // namespace hymn
