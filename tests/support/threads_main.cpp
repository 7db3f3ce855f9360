// Runs the rank tests with ranks as threads, at several numbers of ranks; TEST_RANKS="1 2 8" says
// which.
#include "tests/support/rank_test.hpp"
#include "tests/support/rank_threads.hpp"

namespace hymn::test {

void on_ranks(const std::function<void(World&)>& body, const WorldOptions& options) {
  for (const std::string& ranks : words_of("TEST_RANKS", "1 2 3 4 7"))
    if (!run_told("of " + ranks + " threads", body, [&](const RankMain& rank_main) {
          run_ranks(std::stoi(ranks), rank_main, options);
        }))
      return;
}

}  // namespace hymn::test

int main(int argc, char** argv) { return hymn::test::run_rank_tests(argc, argv, "threads"); }
