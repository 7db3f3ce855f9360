#include "collectives/validate_view.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace hymn {
namespace {

/// Bytes: MPI counts them as an int.
constexpr std::size_t largest_value = std::size_t{1} << 30;

void validate_size(std::string_view side, const ConstBufferView& view) {
  const bool is_described = view.dtype == DataType::value || view.dtype == DataType::opaque;
  if (is_described != (view.opaque != nullptr))
    throw UsageError(fmt::format(
        "the {} buffer's dtype is opaque without an OpaqueType, or the other way round", side));
  const std::size_t element = view.element_bytes();
  if (element == 0 && view.opaque == nullptr)
    throw UsageError(fmt::format("the {} buffer's dtype is {}, which is not a valid one", side,
                                 static_cast<int>(view.dtype)),
                     {.remedy = "give one of hymn::DataType"});
  if (view.dtype == DataType::value && (element == 0 || element > largest_value))
    throw UsageError(fmt::format("the {} buffer's values have {} bytes each, where 1 to {} can be",
                                 side, element, largest_value));
  if (view.dtype == DataType::opaque && view.opaque->handle == nullptr)
    throw UsageError(fmt::format("the {} buffer's OpaqueType has no handle", side));
  // Multiplied, for a division would be felt in small calls. An element of no bytes counts as one.
  std::ptrdiff_t bytes = 0;
  if (__builtin_mul_overflow(view.count, std::max<std::size_t>(element, 1), &bytes))
    throw UsageError(fmt::format("the {} buffer's count is {}, as {}: more than memory can hold",
                                 side, view.count, static_cast<std::int64_t>(view.count)),
                     {.remedy = "check for a negative number that became a count"});
  if (view.data == nullptr && view.count != 0)
    throw UsageError(fmt::format("the {} buffer is null but has {} elements", side, view.count));
}

/// A layout is dense when some order of its dimensions lays it out without gaps.
bool is_dense(const ConstBufferView& view) {
  struct Dimension {
    std::int64_t size;
    std::int64_t stride;
  };
  std::vector<Dimension> dimensions;
  for (std::size_t i = 0; i < view.shape.size(); ++i)
    if (view.shape[i] != 1) dimensions.push_back({view.shape[i], view.strides[i]});
  std::sort(dimensions.begin(), dimensions.end(),
            [](const Dimension& a, const Dimension& b) { return a.stride < b.stride; });
  std::int64_t expected = 1;
  for (const Dimension& dimension : dimensions) {
    if (dimension.stride != expected) return false;
    expected *= dimension.size;
  }
  return true;
}

void validate_layout(std::string_view side, const ConstBufferView& view) {
  if (view.shape.empty() && view.strides.empty()) return;
  std::size_t elements = 1;
  for (const std::int64_t size : view.shape) {
    if (size < 0 || (size > 0 && elements > std::numeric_limits<std::size_t>::max() /
                                                static_cast<std::size_t>(size)))
      throw UsageError(fmt::format("the {} buffer's shape has a size of {}", side, size));
    elements *= static_cast<std::size_t>(size);
  }
  if (elements != view.count)
    throw UsageError(fmt::format("the {} buffer's shape holds {} elements, its count is {}", side,
                                 elements, view.count));
  if (view.strides.empty() || view.count == 0) return;
  if (view.strides.size() != view.shape.size())
    throw UsageError(fmt::format("the {} buffer has {} dimensions but {} strides", side,
                                 view.shape.size(), view.strides.size()));
  if (!is_dense(view))
    throw UsageError(
        fmt::format("the {} buffer's layout has gaps or overlaps: [{}] with strides [{}]", side,
                    fmt::join(view.shape, ", "), fmt::join(view.strides, ", ")),
        {.remedy = "copy it into contiguous memory first"});
}

}  // namespace

void validate_view(std::string_view side, const ConstBufferView& view) {
  validate_size(side, view);
  validate_layout(side, view);
}

bool overlap(const ConstBufferView& a, const ConstBufferView& b) {
  if (a.bytes() == 0 || b.bytes() == 0) return false;
  const auto a_begin = reinterpret_cast<std::uintptr_t>(a.data);
  const auto b_begin = reinterpret_cast<std::uintptr_t>(b.data);
  return a_begin < b_begin + b.bytes() && b_begin < a_begin + a.bytes();
}

void refuse_overlap() {
  throw UsageError("buffers of this call overlap",
                   {.remedy = "give separate buffers, or the same one for an in-place call"});
}

}  // namespace hymn
