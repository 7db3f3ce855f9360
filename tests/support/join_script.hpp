// What happens in a join at random, from a seed, the same on all ranks.
#pragma once

#include <array>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/support/blocks.hpp"

namespace hymn::test {

enum class Deed : std::uint8_t {
  sum,
  largest,
  average,
  several,  ///< sums in flight at the same time
  bits,     ///< a sum that is rounded
  all_gather,
  all_to_all,
  reduce_scatter,
  broadcast,
  reduce,
  barrier,
  all_gather_uneven,
  all_to_all_uneven,
};
inline constexpr std::size_t deeds = 13;

struct Step {
  Deed deed = Deed::barrier;
  std::size_t count = 0;
  int preferred = 0;  ///< as root: a group rank
};

/// What happens, the same on all ranks.
class Script {
 public:
  Script(std::uint64_t seed, int ranks) : seed_(seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](std::uint64_t limit) { return static_cast<int>(random() % limit); };
    by_hooks = below(2) == 0;
    divisor = below(2) == 0 ? JoinDivisor::active : JoinDivisor::initial;
    fill = below(3) == 0 ? -5 : 0;
    for (int rank = 0; rank < ranks; ++rank) inputs.push_back(below(4) == 0 ? 0 : below(6));
    groups.emplace_back(static_cast<std::size_t>(ranks));
    std::iota(groups[0].begin(), groups[0].end(), 0);
    for (int more = below(3); more > 0; --more) {
      std::vector<int> members;
      for (const int rank : groups[0])
        if (below(3) != 0) members.push_back(rank);
      if (!members.empty()) groups.push_back(std::move(members));
    }
    const int candidate = below(static_cast<std::uint64_t>(ranks));
    const int most = inputs[as_size(candidate)];
    if (below(5) == 0 && most > 0) {
      thrower = candidate;
      throws_at = below(static_cast<std::uint64_t>(most));
    }
  }

  bool is_active(int rank, int iteration) const { return inputs[as_size(rank)] > iteration; }
  /// What is done on a group in an iteration.
  std::vector<Step> steps(std::size_t group, int iteration) const {
    std::mt19937_64 random(seed_ * 1'000'003 + group * 1009 + static_cast<unsigned>(iteration));
    std::vector<Step> all(random() % 4);
    for (Step& step : all) {
      step.deed = static_cast<Deed>(random() % deeds);
      constexpr std::array<std::size_t, 5> counts = {0, 1, 7, 300, 6000};
      step.count = counts[random() % counts.size()];
      step.preferred = static_cast<int>(random() % groups[group].size());
    }
    return all;
  }
  std::string told() const {
    std::string text = "case " + std::to_string(seed_) + (by_hooks ? ", hooks" : ", shadows");
    for (const int input : inputs) text += " " + std::to_string(input);
    if (thrower >= 0) text += "; rank " + std::to_string(thrower) + " throws";
    return text + "; repeat it with TEST_FIRST_CASE=" + std::to_string(seed_) +
           " TEST_CASES=1 --gtest_filter='JoinCases.*', and as many ranks";
  }

  bool by_hooks = false;
  JoinDivisor divisor = JoinDivisor::initial;
  double fill = 0;
  std::vector<int> inputs;
  std::vector<std::vector<int>> groups;
  int thrower = -1;
  int throws_at = 0;

 private:
  std::uint64_t seed_;
};

}  // namespace hymn::test
