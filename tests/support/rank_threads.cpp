#include "tests/support/rank_threads.hpp"

#include <cstdlib>
#include <iterator>
#include <sstream>

#include "tests/support/rank_test.hpp"
#include "tests/support/watchdog.hpp"

namespace hymn::test {

std::vector<std::string> words_of(const char* variable, const char* usual) {
  const char* text = std::getenv(variable);
  std::istringstream words(text == nullptr ? usual : text);
  return {std::istream_iterator<std::string>(words), {}};
}

bool run_told(const std::string& where, const RankMain& body,
              const std::function<void(const RankMain&)>& run) {
  const auto rank_main = [&](World& world) {
    SCOPED_TRACE("rank " + std::to_string(world.rank()) + " " + where);
    body(world);
  };
  try {
    run(rank_main);
  } catch (const RanksFailed& failed) {
    for (const RankFailure& failure : failed.failures())
      ADD_FAILURE() << "rank " << failure.rank << " " << where << " threw: " << failure.text;
  }
  return !::testing::Test::HasFailure();
}

int run_rank_tests(int argc, char** argv, const std::string& who) {
  ::testing::InitGoogleTest(&argc, argv);
  install_watchdog(who, 300);
  return RUN_ALL_TESTS();
}

bool ranks_are_threads() { return true; }

bool any_thread_may_call() { return true; }

// A world that is too small is passed over without a word: a larger one comes later.
bool enough_ranks(const World& world, int ranks) { return world.size() >= ranks; }

}  // namespace hymn::test
