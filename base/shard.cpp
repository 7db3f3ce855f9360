// Shards: how a range is cut, and put into another order without a table.
#include "hymn/shard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "hymn/error.hpp"

namespace hymn {
namespace {

void require(bool holds, int rank, const std::string& problem, const char* remedy) {
  if (holds) return;
  throw UsageError(problem, {.rank = rank, .operation = "shard", .remedy = remedy});
}

void require_weights(int rank, int size, const ShardPolicy& policy) {
  const std::span<const double> weights = policy.weights;
  if (weights.empty()) return;
  require(policy.form == ShardForm::blocks && policy.tail == ShardTail::keep, rank,
          "weights can only be given for blocks whose tail is kept",
          "leave out the weights, or form and tail");
  require(weights.size() == static_cast<std::size_t>(size), rank,
          fmt::format("{} weights for {} ranks", weights.size(), size),
          "give one weight for each rank");
  double sum = 0;
  for (const double weight : weights) {
    require(std::isfinite(weight) && weight >= 0, rank,
            fmt::format("a weight of {} is not valid", weight), "give weights of 0 or more");
    sum += weight;
  }
  require(sum > 0 && std::isfinite(sum), rank, fmt::format("the weights add up to {}", sum),
          "give weights of which at least one is above 0, and whose sum is finite");
}

/// Where the block of `rank` begins. Sums are made in the same order for all ranks, so that each
/// block ends where the next one begins.
std::size_t weighted_begin(std::size_t count, int rank, std::span<const double> weights) {
  const auto sum_to = [&](std::size_t end) {
    long double sum = 0;
    for (const double weight : weights.first(end)) sum += weight;
    return sum;
  };
  const auto end = static_cast<std::size_t>(rank);
  const long double whole = sum_to(weights.size());
  const long double before = sum_to(end);
  // Also where the last ranks have no share: rounding must not leave anything to them.
  if (before >= whole) return count;
  const long double exact = static_cast<long double>(count) * (before / whole);
  return std::min(count, static_cast<std::size_t>(std::floor(exact + 0.5L)));
}

/// The finalizer of SplitMix64: a mixing of 64 bits.
constexpr std::uint64_t mixed(std::uint64_t bits) {
  bits += 0x9e3779b97f4a7c15u;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  return bits ^ (bits >> 31);
}

}  // namespace

/// A Feistel network permutes the numbers of an even number of bits; where it leads beyond the
/// range it is applied again, which in the end leads back into it (cycle walking). There are less
/// than four times as many numbers as indices, so that this takes a few rounds.
std::size_t Shard::permuted(std::size_t position) const {
  constexpr std::uint64_t rounds = 6;
  const std::size_t count = range_.size();
  const int half = std::max(1, (static_cast<int>(std::bit_width(count - 1)) + 1) / 2);
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  std::uint64_t number = position;
  do {
    std::uint64_t left = number >> half;
    std::uint64_t right = number & mask;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      const std::uint64_t next = left ^ (mixed(right ^ mixed(seed_ + round)) & mask);
      left = right;
      right = next;
    }
    number = left << half | right;
  } while (number >= count);
  return number;
}

Shard shard(IndexRange range, int rank, int size, const ShardPolicy& policy) {
  require(size > 0 && rank >= 0 && rank < size, rank,
          fmt::format("rank {} is not one of {} ranks", rank, size),
          "give a rank from 0 to size - 1; ranks outside of a group have no share of it");
  require(range.begin <= range.end, rank,
          fmt::format("the range ends at {}, before it begins at {}", range.end, range.begin),
          "give its begin first");
  const std::size_t count = range.size();
  require(count <= std::size_t{1} << 63, rank, fmt::format("{} indices are too many", count),
          "give at most 2^63");
  require_weights(rank, size, policy);

  const auto ranks = static_cast<std::size_t>(size);
  const auto me = static_cast<std::size_t>(rank);
  const std::size_t whole = count / ranks;
  const std::size_t rest = count % ranks;
  Shard mine;
  mine.range_ = range;
  mine.shuffled_ = policy.shuffle.has_value() && count > 1;
  mine.seed_ = policy.shuffle.value_or(0);
  // All alike but for the tail: the first `rest` ranks may have one more.
  const bool one_more =
      policy.tail == ShardTail::keep ? me < rest : policy.tail == ShardTail::repeat && rest > 0;
  mine.count_ = whole + (one_more ? 1 : 0);
  if (!policy.weights.empty()) {
    mine.first_ = weighted_begin(count, rank, policy.weights);
    mine.count_ = weighted_begin(count, rank + 1, policy.weights) - mine.first_;
  } else if (policy.form == ShardForm::cyclic) {
    mine.first_ = me;
    mine.stride_ = ranks;
  } else if (policy.tail == ShardTail::keep) {
    mine.first_ = me * whole + std::min(me, rest);
  } else {
    mine.first_ = me * mine.count_;
  }
  return mine;
}

}  // namespace hymn
