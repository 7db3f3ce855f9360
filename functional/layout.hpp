// Strides, and copies between layouts in the memory of the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "hymn/array.hpp"

namespace hymn::functional::detail {

/// Of a contiguous array, the last dimension fastest.
Shape row_major(std::span<const std::int64_t> shape);

bool is_row_major(std::span<const std::int64_t> shape, std::span<const std::int64_t> strides);

/// The sizes that a layout has in each dimension, and how far its elements are apart (in elements).
struct CopyPlan {
  std::span<const std::int64_t> shape;
  std::span<const std::int64_t> to_strides;
  std::span<const std::int64_t> from_strides;
  std::size_t element_bytes;
};

/// Element by element; runs that lie together on both sides go as one.
void copy_elements(std::byte* to, const std::byte* from, const CopyPlan& plan);

/// A contiguous array of its own with the same elements, which must be there.
Array copied(const Array& array);

}  // namespace hymn::functional::detail
