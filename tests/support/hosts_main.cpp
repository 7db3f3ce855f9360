// Runs the rank tests with ranks as threads that pretend to be on several hosts, or on several NUMA
// nodes of one; TEST_HOSTS="0,0,1 0.0,0.1,0.0" says on which host, and on which node there, each
// rank is.
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/thread_world.hpp"
#include "tests/support/hosts.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/watchdog.hpp"

namespace hymn::test {
namespace {

// As few hosts as can be, uneven ones, ranks in turn, several hosts with more than one leader; and
// the same of NUMA nodes.
constexpr const char* usual_layouts =
    "0,0 0,0,1 0,1,1,1 0,1,0,1 0,0,1,1,2 0,1,2,0,1,2,2 0,0,0,1,1,1,1,1 0,0,0,0,0,0,0,1,2,2 "
    "0.0,0.0,0.1 0.1,0.0,0.1,0.0 0.0,0.0,0.1,0.2,0.3,0.3 0.2,0.2,0.2,0.0,0.0,0.0,0.1,0.1,0.1 "
    "0.0,0.1,1.1,0.0,1.0,1.0";

std::vector<std::string> layouts() {
  const char* text = std::getenv("TEST_HOSTS");
  std::istringstream words(text == nullptr ? usual_layouts : text);
  return {std::istream_iterator<std::string>(words), {}};
}

/// A machine for each rank's host, alike but for their names.
std::vector<PretendedRank> ranks_of(const std::string& layout) {
  std::vector<PretendedRank> ranks;
  std::istringstream words(layout);
  for (std::string place; std::getline(words, place, ',');) {
    const std::size_t dot = place.find('.');
    Machine machine = make_box({.numa_nodes = 4});
    machine.name = "host" + place.substr(0, dot);
    PretendedRank rank{.host = machine.name, .machine = nullptr, .cpus = machine.cpus};
    if (dot != std::string::npos)
      rank.cpus = machine.numa_nodes.at(std::stoul(place.substr(dot + 1))).cpus;
    rank.machine = std::make_shared<const Machine>(std::move(machine));
    rank.config = Config::from_environment();
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

}  // namespace

void run_on_hosts(const std::string& layout, const std::function<void(World&)>& body,
                  const WorldOptions& options) {
  run_pretended_ranks(ranks_of(layout), body, options);
}

void on_ranks(const std::function<void(World&)>& body, const WorldOptions& options) {
  for (const std::string& layout : layouts()) {
    const auto rank_main = [&](World& world) {
      SCOPED_TRACE("rank " + std::to_string(world.rank()) + " on hosts " + layout);
      body(world);
    };
    try {
      run_on_hosts(layout, rank_main, options);
    } catch (const RanksFailed& failed) {
      for (const RankFailure& failure : failed.failures())
        ADD_FAILURE() << "rank " << failure.rank << " on hosts " << layout
                      << " threw: " << failure.text;
    }
    if (::testing::Test::HasFailure()) return;  // the same failure on other hosts tells nothing new
  }
}

bool ranks_are_threads() { return true; }

bool any_thread_may_call() { return true; }

// Layouts that are too small are passed over without a word: a larger one comes later.
bool enough_ranks(const World& world, int ranks) { return world.size() >= ranks; }

}  // namespace hymn::test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  hymn::test::install_watchdog("hosts", 300);
  return RUN_ALL_TESTS();
}
