// What the ranks do in which step: known to all of them without a message, also when some are lost.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "examples/uneven_training/deal.hpp"

namespace digits {

struct Settings {
  int epochs = 6;
  std::size_t batch = 16;  ///< samples of one rank in a step
  double rate = 0.1;
  std::uint64_t seed = 1;
  bool uneven = false;  ///< rank 0 has most samples, and the last rank fewest
  bool bf16 = false;    ///< gradients travel as bfloat16
  int lose_rank = -1;   ///< kills itself
  std::int64_t lose_at = 40;
};

/// A step of all ranks.
struct Position {
  int epoch = 0;
  std::size_t batch = 0;
  auto operator<=>(const Position&) const = default;
};

/// From `begin` on there were so many ranks, until the next stretch, or the end.
struct Stretch {
  Position begin;
  int ranks;
};

inline uneven::Deal deal_for(int ranks, std::size_t samples, const Settings& settings) {
  std::vector<double> shares;
  for (int rank = 0; rank < ranks; ++rank) shares.push_back(settings.uneven ? ranks - rank : 1);
  return {samples, shares, settings.batch, settings.seed};
}

/// In an epoch. Even parts may differ by a sample, and with it by a batch, which is left out.
inline std::size_t steps_in(const uneven::Deal& deal, const Settings& settings) {
  return settings.uneven ? deal.most_batches() : deal.least_batches();
}

}  // namespace digits
