#include "runtime/group/sparse_places.hpp"

#include <fmt/format.h>

#include "hymn/error.hpp"

namespace hymn::detail {
namespace {

void require_countable(std::span<const std::int64_t> shape) {
  std::ptrdiff_t elements = 1;
  for (const std::int64_t size : shape) {
    if (size < 0)
      throw UsageError(fmt::format("the shape {} has a size below 0", shape_text(shape)));
    // Also behind a size of 0: so keys cannot overflow, whichever dimensions are sparse.
    if (size > 0 && __builtin_mul_overflow(elements, size, &elements))
      throw UsageError(
          fmt::format("the shape {} has more than 2^63 - 1 elements", shape_text(shape)));
  }
}

}  // namespace

std::string shape_text(std::span<const std::int64_t> sizes) {
  std::string text;
  for (const std::int64_t size : sizes) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

SparsePlaces::SparsePlaces(std::span<const std::int64_t> shape, std::size_t sparse_dims) {
  if (sparse_dims == 0 || sparse_dims > shape.size())
    throw UsageError(
        fmt::format("{} sparse dimensions, where the shape {} has {}", sparse_dims,
                    shape_text(shape), shape.size()),
        {.remedy =
             "give a shape with the sparse dimensions first, of which there is at least one"});
  require_countable(shape);
  sizes_.assign(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(sparse_dims));
  for (const std::int64_t size : shape.subspan(sparse_dims))
    block_ *= static_cast<std::size_t>(size);
}

SparseKeys SparsePlaces::keys_of(std::span<const std::int64_t> indices,
                                 std::string_view what) const {
  const std::size_t entries = indices.size() / sizes_.size();
  if (entries * sizes_.size() != indices.size())
    throw UsageError(fmt::format("{} numbers of indices cannot be those of {} sparse dimensions",
                                 indices.size(), sizes_.size()));
  SparseKeys keys(entries);
  for (std::size_t d = 0; d < sizes_.size(); ++d) {
    const std::span<const std::int64_t> row = indices.subspan(d * entries, entries);
    const auto size = static_cast<std::uint64_t>(sizes_[d]);
    for (std::size_t i = 0; i < entries; ++i) {
      const auto index = static_cast<std::uint64_t>(row[i]);  // of one below 0 it is large
      if (index >= size)
        throw UsageError(fmt::format("{} {} of entry {} is not in dimension {}, which has size {}",
                                     what, row[i], i, d, size),
                         {.remedy = "give indices from 0 to the size of their dimension, less 1"});
      keys[i] = keys[i] * size + index;
    }
  }
  return keys;
}

std::vector<std::int64_t> SparsePlaces::indices_of(std::span<const std::uint64_t> keys) const {
  std::vector<std::int64_t> indices(sizes_.size() * keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    std::uint64_t left = keys[i];
    for (std::size_t d = sizes_.size(); d-- > 0;) {
      const auto size = static_cast<std::uint64_t>(sizes_[d]);
      indices[d * keys.size() + i] = static_cast<std::int64_t>(left % size);
      left /= size;
    }
  }
  return indices;
}

std::string SparsePlaces::text_of(std::uint64_t key) const {
  return shape_text(indices_of(std::span(&key, 1)));
}

}  // namespace hymn::detail
