// Everything mixed at random (tests/support/mixed_run.hpp), from several seeds.
//
// TEST_SEED=N repeats one seed; TEST_SEEDS says how many are tried (10).
#include <cstdlib>

#include "tests/support/mixed_run.hpp"
#include "tests/support/rank_test.hpp"

namespace hymn::test {
namespace {

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

void run_seed(World& world, std::uint64_t seed) {
  const std::string repeat = "TEST_SEED=" + std::to_string(seed) + " repeats this";
  SCOPED_TRACE(repeat);
  auto run = std::make_unique<MixedRun>(world, seed);
  try {
    run->run(80);
    run->end();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "rank " << world.rank() << ": " << error.what();
    // What is in flight still needs its buffers, and the program ends soon.
    static_cast<void>(run.release());
    throw;
  }
}

RANK_TEST(Mixed, FromSeeds) {
  if (const std::uint64_t seed = number_from("TEST_SEED", 0); seed != 0)
    return run_seed(world, seed);
  const std::uint64_t seeds = number_from("TEST_SEEDS", 10);
  // Other ones for other numbers of ranks.
  const auto first = static_cast<std::uint64_t>(world.size()) * 10000;
  for (std::uint64_t seed = first + 1; seed <= first + seeds; ++seed) run_seed(world, seed);
}

}  // namespace
}  // namespace hymn::test
