// Runs the rank tests with ranks as threads that pretend to be on several hosts; TEST_HOSTS="0,0,1
// 0,1,0" says on which host each rank is.
#include "tests/support/hosts.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/rank_threads.hpp"

namespace hymn::test {
namespace {

// As few hosts as can be, uneven ones, ranks in turn, several hosts with more than one leader.
constexpr const char* usual_layouts =
    "0,0 0,0,1 0,1,1,1 0,1,0,1 0,0,1,1,2 0,1,2,0,1,2,2 0,0,0,1,1,1,1,1 0,0,0,0,0,0,0,1,2,2 "
    "0,0,1,0,1,1";

}  // namespace

void on_ranks(const std::function<void(World&)>& body, const WorldOptions& options) {
  for (const std::string& layout : words_of("TEST_HOSTS", usual_layouts))
    if (!run_told("on hosts " + layout, body,
                  [&](const RankMain& rank_main) { run_on_hosts(layout, rank_main, options); }))
      return;
}

}  // namespace hymn::test

int main(int argc, char** argv) { return hymn::test::run_rank_tests(argc, argv, "hosts"); }
