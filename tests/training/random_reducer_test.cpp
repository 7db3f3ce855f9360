// Random models, options and iterations against what one process computes of all ranks.
#include "tests/support/seeds.hpp"
#include "tests/training/random_play.hpp"

namespace hymn::test {
namespace {

RANK_TEST(RandomReducer, DoesAsOneProcess) {
  const std::uint64_t first = first_seed();
  const auto cases = std::stoull(word_from("TEST_CASES", "40"));
  for (std::uint64_t seed = first; seed < first + cases; ++seed) play_random(world, seed);
}

}  // namespace
}  // namespace hymn::test
