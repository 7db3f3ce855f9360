// Random programs (tests/random) under random schedules: TEST_SEED and TEST_SEEDS say which.
#include <gtest/gtest.h>

#include <cstdlib>

#include "hymn/simulation.hpp"
#include "tests/random/player.hpp"
#include "tests/simulation/layouts.hpp"

namespace hymn::test {
namespace {

TEST(RandomPrograms, InSimulations) {
  static constexpr std::array layouts = {"0,0", "0,0,0", "0,1", "0,0,1", "0,0,0,0", "0,1,1,0"};
  const std::uint64_t first = number_in("TEST_SEED", 0);
  const std::uint64_t count = number_in("TEST_SEEDS", 300);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    SimulationOptions options = on_hosts(layouts[seed % layouts.size()]);
    options.seed = seed;
    options.policy = seed % 4 == 3 ? SchedulePolicy::priorities : SchedulePolicy::random;
    const Script script = Script::draw(seed, {.ranks = options.ranks, .steps = 40});
    const SimulationResult result = simulate(options, [&](World& world) {
      World* const worlds[] = {&world};
      // Where it fails, operations are in flight for longer than this function runs.
      auto player = std::make_unique<Player>(worlds, script);
      try {
        player->play();
        player->end();
      } catch (...) {
        note_in_story(player->where());
        (void)player.release();
        throw;
      }
    });
    ASSERT_TRUE(result.ok()) << "seed " << seed << ": " << result.story();
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace hymn::test
