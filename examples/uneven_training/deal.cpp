#include "examples/uneven_training/deal.hpp"

#include <algorithm>

namespace uneven {

Deal::Deal(std::size_t samples, std::span<const double> shares, std::size_t batch,
           std::uint64_t seed)
    : samples_(samples), batch_(batch), seed_(seed) {
  const int ranks = static_cast<int>(shares.size());
  for (int rank = 0; rank < ranks; ++rank)
    shards_.push_back(hymn::shard({0, samples}, rank, ranks, {.weights = shares, .shuffle = seed}));
}

std::size_t Deal::least_batches() const {
  std::size_t least = batches_of(0);
  for (int rank = 1; rank < ranks(); ++rank) least = std::min(least, batches_of(rank));
  return least;
}

int Deal::longest_rank() const {
  int longest = 0;
  for (int rank = 1; rank < ranks(); ++rank)
    if (batches_of(rank) > batches_of(longest)) longest = rank;
  return longest;
}

std::size_t Deal::most_batches() const { return batches_of(longest_rank()); }

hymn::Shard Deal::order_of(std::size_t samples, int epoch) const {
  return hymn::shard({0, samples}, 0, 1,
                     {.shuffle = seed_ + 1 + static_cast<std::uint64_t>(epoch)});
}

}  // namespace uneven
