#include "functional/layout.hpp"

#include <cstring>

#include "functional/storage.hpp"

namespace hymn::functional::detail {
namespace {

/// The dimensions from the last one back that lie together on both sides, as one run.
struct Run {
  std::size_t dimensions;  // that are left before it
  std::int64_t elements;
};

Run run_of(const CopyPlan& plan) {
  Run run{plan.shape.size(), 1};
  while (run.dimensions > 0) {
    const std::size_t last = run.dimensions - 1;
    const bool follows =
        plan.to_strides[last] == run.elements && plan.from_strides[last] == run.elements;
    if (!follows && plan.shape[last] != 1) break;
    run.elements *= plan.shape[last];
    run.dimensions = last;
  }
  return run;
}

void copy_dimension(std::byte* to, const std::byte* from, const CopyPlan& plan, const Run& run,
                    std::size_t dimension) {
  if (dimension == run.dimensions) {
    std::memcpy(to, from, static_cast<std::size_t>(run.elements) * plan.element_bytes);
    return;
  }
  const auto bytes = static_cast<std::int64_t>(plan.element_bytes);
  for (std::int64_t i = 0; i < plan.shape[dimension]; ++i)
    copy_dimension(to + i * plan.to_strides[dimension] * bytes,
                   from + i * plan.from_strides[dimension] * bytes, plan, run, dimension + 1);
}

}  // namespace

Shape row_major(std::span<const std::int64_t> shape) {
  Shape strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

bool is_row_major(std::span<const std::int64_t> shape, std::span<const std::int64_t> strides) {
  std::int64_t expected = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

void copy_elements(std::byte* to, const std::byte* from, const CopyPlan& plan) {
  for (const std::int64_t size : plan.shape)
    if (size == 0) return;
  copy_dimension(to, from, plan, run_of(plan), 0);
}

Array copied(const Array& array) {
  if (array.is_meta()) return Array::meta(array.spec());
  Array result = Array::empty(array.shape(), array.dtype());
  const std::size_t bytes = size_of(array.dtype());
  const auto offset = array.offset() * static_cast<std::int64_t>(bytes);
  copy_elements(result.storage()->data(), array.storage()->data() + offset,
                {array.shape(), result.strides(), array.strides(), bytes});
  return result;
}

}  // namespace hymn::functional::detail
