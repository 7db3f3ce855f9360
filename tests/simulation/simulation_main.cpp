// Runs the rank tests in simulations: TEST_HOSTS="0,0,1 0,1,0" says on which host each rank is,
// TEST_SEED and TEST_SEEDS from which seed on, and how many. What fails tells its seed; with
// TEST_STORY its story, too.
#include <iostream>

#include "hymn/simulation.hpp"
#include "tests/simulation/layouts.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/rank_threads.hpp"

namespace hymn::test {
namespace {

void simulate_told(const SimulationOptions& options, const RankMain& rank_main) {
  const SimulationResult result = simulate(options, rank_main);
  if (options.story) std::cout << result.story();
  result.rethrow();
}

}  // namespace

void on_ranks(const std::function<void(World&)>& body, const WorldOptions& options) {
  const std::uint64_t first = number_in("TEST_SEED", 0);
  for (const std::string& layout : words_of("TEST_HOSTS", "0 0,0 0,0,0 0,1,0"))
    for (std::uint64_t seed = first; seed < first + number_in("TEST_SEEDS", 1); ++seed) {
      SimulationOptions simulation = on_hosts(layout);
      simulation.seed = seed;
      simulation.world = options;
      const std::string where = "on hosts " + layout + ", seed " + std::to_string(seed);
      if (!run_told(where, body,
                    [&](const RankMain& rank_main) { simulate_told(simulation, rank_main); }))
        return;
    }
}

}  // namespace hymn::test

int main(int argc, char** argv) { return hymn::test::run_rank_tests(argc, argv, "simulated"); }
