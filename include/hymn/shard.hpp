// Which of the inputs are whose. docs/shards.md tells which way is for what.
#pragma once

#include "hymn/standard.hpp"  // first

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>

#include "hymn/export.hpp"
#include "hymn/standard_parts.hpp"

namespace hymn {

/// The indices from `begin` on, up to but without `end`.
struct IndexRange {
  std::size_t begin = 0;
  std::size_t end = 0;

  constexpr std::size_t size() const { return end - begin; }
  friend constexpr bool operator==(const IndexRange&, const IndexRange&) = default;
};

/// How the indices are spread over the ranks.
enum class ShardForm : std::uint8_t {
  blocks,  ///< each rank has neighbours: 0 1 2 | 3 4 | 5 6
  cyclic,  ///< dealt in turn: 0 3 6 | 1 4 | 2 5
};

/// What is done where the indices cannot be divided by the number of ranks.
enum class ShardTail : std::uint8_t {
  keep,    ///< each index once; shards may differ by one, the first ones have more
  drop,    ///< the last ones go to nobody, so that all shards have the same size
  repeat,  ///< the first ones go to somebody once more, so that all shards have the same size
};

struct ShardPolicy {
  ShardForm form = ShardForm::blocks;
  /// Shares of the ranks, at any scale; only with blocks, and tail `keep`. Each shard has the size
  /// of its share, rounded up or down. Empty: all alike.
  std::span<const double> weights{};
  ShardTail tail = ShardTail::keep;
  /// A seed: the indices are put into a random order before they are spread. The same on all ranks;
  /// for another order in each epoch give `seed + epoch`.
  std::optional<std::uint64_t> shuffle{};
};

/// The indices of one rank, in their order: a random-access range of std::size_t, and a view. It
/// holds a few numbers, however many the indices are; nothing is allocated. A plain value: may be
/// copied, and read from any thread.
class HYMN_API Shard {
 public:
  class Iterator;

  Shard() = default;

  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  /// The i-th index of this rank, for i < size().
  std::size_t operator[](std::size_t i) const {
    const std::size_t position = (first_ + i * stride_) % range_.size();
    return range_.begin + (shuffled_ ? permuted(position) : position);
  }
  Iterator begin() const;
  Iterator end() const;

 private:
  friend HYMN_API Shard shard(IndexRange range, int rank, int size, const ShardPolicy& policy);
  std::size_t permuted(std::size_t position) const;

  IndexRange range_{};
  // Of positions in the order that is spread over the ranks, modulo the size of the range.
  std::size_t first_ = 0;
  std::size_t stride_ = 1;
  std::size_t count_ = 0;
  bool shuffled_ = false;
  std::uint64_t seed_ = 0;
};

/// Valid as long as the Shard that it belongs to.
class Shard::Iterator {
 public:
  using iterator_concept = std::random_access_iterator_tag;
  using iterator_category = std::input_iterator_tag;  // its reference is a value
  using value_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using reference = std::size_t;
  using pointer = void;

  Iterator() = default;
  Iterator(const Shard& shard, std::size_t place) : shard_(&shard), place_(place) {}

  std::size_t operator*() const { return (*shard_)[place_]; }
  std::size_t operator[](difference_type n) const { return *(*this + n); }
  Iterator& operator+=(difference_type n) {
    place_ += static_cast<std::size_t>(n);
    return *this;
  }
  Iterator& operator-=(difference_type n) { return *this += -n; }
  Iterator& operator++() { return *this += 1; }
  Iterator& operator--() { return *this -= 1; }
  Iterator operator++(int) {
    const Iterator before = *this;
    ++*this;
    return before;
  }
  Iterator operator--(int) {
    const Iterator before = *this;
    --*this;
    return before;
  }
  friend Iterator operator+(Iterator at, difference_type n) { return at += n; }
  friend Iterator operator+(difference_type n, Iterator at) { return at += n; }
  friend Iterator operator-(Iterator at, difference_type n) { return at -= n; }
  friend difference_type operator-(const Iterator& a, const Iterator& b) {
    return static_cast<difference_type>(a.place_ - b.place_);
  }
  friend bool operator==(const Iterator& a, const Iterator& b) { return a.place_ == b.place_; }
  friend auto operator<=>(const Iterator& a, const Iterator& b) { return a.place_ <=> b.place_; }

 private:
  const Shard* shard_ = nullptr;
  std::size_t place_ = 0;
};

inline Shard::Iterator Shard::begin() const { return {*this, 0}; }
inline Shard::Iterator Shard::end() const { return {*this, count_}; }

/// What rank `rank` of `size` has of a range. Nothing is sent: each rank finds out alone, and all
/// come to the same end when they give the same. Throws UsageError for a rank that is not one of
/// `size`, a range that ends before it begins or has more than 2^63 indices, and weights that are
/// not one for each rank, negative, not finite or all zero, or that come with another form or tail.
HYMN_API Shard shard(IndexRange range, int rank, int size, const ShardPolicy& policy = {});

/// What has a rank and a size: a World, a ProcessGroup (on its members), an Exchange.
template <class T>
concept Ranked = requires(const T& ranks) {
  { ranks.rank() } -> std::convertible_to<int>;
  { ranks.size() } -> std::convertible_to<int>;
};

template <Ranked Ranks>
Shard shard(IndexRange range, const Ranks& ranks, const ShardPolicy& policy = {}) {
  return shard(range, ranks.rank(), ranks.size(), policy);
}
/// Of the indices from 0 to count - 1.
template <Ranked Ranks>
Shard shard(std::size_t count, const Ranks& ranks, const ShardPolicy& policy = {}) {
  return shard(IndexRange{0, count}, ranks, policy);
}

}  // namespace hymn

template <>
inline constexpr bool std::ranges::enable_view<hymn::Shard> = true;
