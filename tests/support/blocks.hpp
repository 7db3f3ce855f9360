// Buffers that hold one block for each rank: behind one another, or as a list.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/data.hpp"

namespace hymn::test {

inline std::size_t as_size(int rank) { return static_cast<std::size_t>(rank); }
inline std::size_t ranks_as_size(const World& world) { return as_size(world.size()); }

/// Different for every rank, with zeros among them.
inline std::vector<std::size_t> uneven_counts(int ranks) {
  std::vector<std::size_t> counts;
  for (int rank = 0; rank < ranks; ++rank) counts.push_back(as_size(rank * 29 % 4 * 11 + rank % 3));
  return counts;
}

/// Blocks behind one another in one buffer.
class BlockBuffer {
 public:
  BlockBuffer(DataType dtype, std::vector<std::size_t> counts)
      : counts_(std::move(counts)), buffer_(dtype, total(counts_)) {}
  BlockBuffer(DataType dtype, int ranks, std::size_t each)
      : BlockBuffer(dtype, std::vector(as_size(ranks), each)) {}

  BufferView view() { return buffer_; }
  const std::vector<std::size_t>& counts() const { return counts_; }
  BufferView block(int rank) {
    return OutputBlocks::counted(buffer_, counts_).block(rank, static_cast<int>(counts_.size()));
  }
  /// Fills block i with what rank `source` has for rank i.
  void fill_for_each(int source) {
    each_block([source](int rank, BufferView block) { fill(block, source, rank); });
  }
  /// Block i holds what rank i has for everybody (salt 0), or for rank `salt`.
  void expect_from_all(int salt = 0) {
    each_block([salt](int rank, BufferView block) { expect_filled(block, rank, salt); });
    EXPECT_TRUE(buffer_.guards_intact());
  }
  void expect_untouched() { hymn::test::expect_untouched(buffer_); }

 private:
  static std::size_t total(const std::vector<std::size_t>& counts) {
    std::size_t sum = 0;
    for (const std::size_t count : counts) sum += count;
    return sum;
  }
  template <class Visit>
  void each_block(Visit visit) {
    OutputBlocks::counted(buffer_, counts_).for_each(static_cast<int>(counts_.size()), visit);
  }

  std::vector<std::size_t> counts_;
  Buffer buffer_;
};

/// Blocks in memory of their own.
class ListBuffer {
 public:
  ListBuffer(DataType dtype, const std::vector<std::size_t>& counts) {
    for (const std::size_t count : counts) buffers_.emplace_back(dtype, count);
  }

  std::vector<BufferView> views() { return {buffers_.begin(), buffers_.end()}; }
  std::vector<ConstBufferView> const_views() const { return {buffers_.begin(), buffers_.end()}; }
  void fill_for_each(int source) {
    for (std::size_t i = 0; i < buffers_.size(); ++i)
      fill(buffers_[i], source, static_cast<int>(i));
  }
  void expect_from_all(int salt = 0) const {
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      expect_filled(buffers_[i], static_cast<int>(i), salt);
      EXPECT_TRUE(buffers_[i].guards_intact());
    }
  }

 private:
  std::vector<Buffer> buffers_;
};

}  // namespace hymn::test
