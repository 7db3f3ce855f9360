// Runs the rank tests with ranks as threads that pretend to be on several hosts, or on several NUMA
// nodes of one; TEST_HOSTS="0,0,1 0.0,0.1,0.0" says on which host, and on which node there, each
// rank is.
#include <sstream>
#include <string>
#include <vector>

#include "runtime/world/thread_world.hpp"
#include "tests/support/hosts.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/rank_threads.hpp"

namespace hymn::test {
namespace {

// As few hosts as can be, uneven ones, ranks in turn, several hosts with more than one leader; and
// the same of NUMA nodes.
constexpr const char* usual_layouts =
    "0,0 0,0,1 0,1,1,1 0,1,0,1 0,0,1,1,2 0,1,2,0,1,2,2 0,0,0,1,1,1,1,1 0,0,0,0,0,0,0,1,2,2 "
    "0.0,0.0,0.1 0.1,0.0,0.1,0.0 0.0,0.0,0.1,0.2,0.3,0.3 0.2,0.2,0.2,0.0,0.0,0.0,0.1,0.1,0.1 "
    "0.0,0.1,1.1,0.0,1.0,1.0";

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
  for (const std::string& layout : words_of("TEST_HOSTS", usual_layouts))
    if (!run_told("on hosts " + layout, body,
                  [&](const RankMain& rank_main) { run_on_hosts(layout, rank_main, options); }))
      return;
}

}  // namespace hymn::test

int main(int argc, char** argv) { return hymn::test::run_rank_tests(argc, argv, "hosts"); }
