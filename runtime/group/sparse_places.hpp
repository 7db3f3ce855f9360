// The places of a sparse tensor's entries, each as one number.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hymn::detail {

/// Keys, in the order of entries: an entry's place in row-major order of the sparse dimensions. So
/// they ascend as indices do in lexicographic order.
using SparseKeys = std::vector<std::uint64_t>;

/// Which places there are in a shape, and how large the block of values at each is.
class SparsePlaces {
 public:
  /// Throws UsageError for a shape that has not so many dimensions, or too many elements.
  SparsePlaces(std::span<const std::int64_t> shape, std::size_t sparse_dims);

  /// Elements of one entry.
  std::size_t block() const { return block_; }
  /// Of indices [sparse_dims x entries]. Throws UsageError for one outside of the shape; `what`
  /// says whose: "index", "declared index".
  SparseKeys keys_of(std::span<const std::int64_t> indices, std::string_view what) const;
  std::vector<std::int64_t> indices_of(std::span<const std::uint64_t> keys) const;
  /// "[3, 0]".
  std::string text_of(std::uint64_t key) const;

 private:
  std::vector<std::int64_t> sizes_;  // of the sparse dimensions
  std::size_t block_ = 1;
};

/// The dimensions as messages tell them: "[5, 10]".
std::string shape_text(std::span<const std::int64_t> sizes);

}  // namespace hymn::detail
