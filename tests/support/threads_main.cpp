// Runs the rank tests with ranks as threads, at several numbers of ranks; TEST_RANKS="1 2 8" says
// which.
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <string>

#include "tests/support/rank_test.hpp"
#include "tests/support/watchdog.hpp"

namespace hymn::test {
namespace {

std::vector<int> rank_counts() {
  const char* text = std::getenv("TEST_RANKS");
  std::istringstream words(text == nullptr ? "1 2 3 4 7" : text);
  return {std::istream_iterator<int>(words), {}};
}

}  // namespace

void on_ranks(const std::function<void(World&)>& body, const WorldOptions& options) {
  for (const int ranks : rank_counts()) {
    const std::string count = "of " + std::to_string(ranks) + " threads";
    const auto rank_main = [&](World& world) {
      SCOPED_TRACE("rank " + std::to_string(world.rank()) + " " + count);
      body(world);
    };
    try {
      run_ranks(ranks, rank_main, options);
    } catch (const RanksFailed& failed) {
      for (const RankFailure& failure : failed.failures())
        ADD_FAILURE() << "rank " << failure.rank << " " << count << " threw: " << failure.text;
    }
    if (::testing::Test::HasFailure())
      return;  // the same failure at other counts tells nothing new
  }
}

bool ranks_are_threads() { return true; }

bool any_thread_may_call() { return true; }

// A count that is too small is passed over without a word: a larger one comes later.
bool enough_ranks(const World& world, int ranks) { return world.size() >= ranks; }

}  // namespace hymn::test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  hymn::test::install_watchdog("threads", 300);
  return RUN_ALL_TESTS();
}
