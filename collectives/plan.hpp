// Index arithmetic of the algorithms, apart from any data: partners, slices, remainders.
#pragma once

#include <cstddef>

namespace hymn {

/// A run of elements.
struct Slice {
  std::size_t offset = 0;
  std::size_t count = 0;
};

/// Slice `index` of `total` elements cut into `parts` as even as can be: the first total % parts
/// slices hold one more.
constexpr Slice even_slice(std::size_t total, int index, int parts) {
  const auto i = static_cast<std::size_t>(index);
  const auto p = static_cast<std::size_t>(parts);
  const std::size_t each = total / p;
  const std::size_t longer = total % p;
  return {i * each + (i < longer ? i : longer), each + (i < longer ? 1 : 0)};
}

/// Rounds of a dissemination barrier: the smallest k with 2^k >= size.
constexpr unsigned dissemination_rounds(int size) {
  unsigned rounds = 0;
  while ((1ll << rounds) < size) ++rounds;
  return rounds;
}
/// Whom to tell, and whom to hear from, in a round.
constexpr int dissemination_to(int rank, int size, unsigned round) {
  return static_cast<int>((rank + (1ll << round)) % size);
}
constexpr int dissemination_from(int rank, int size, unsigned round) {
  return static_cast<int>(((rank - (1ll << round)) % size + size) % size);
}

}  // namespace hymn
