#include "tests/support/hosts.hpp"

#include <sstream>
#include <string>
#include <vector>

#include "runtime/world/thread_world.hpp"
#include "tests/support/machines.hpp"

namespace hymn::test {
namespace {

/// A machine for each rank's host, alike but for their names.
std::vector<PretendedRank> ranks_of(const std::string& layout) {
  std::vector<PretendedRank> ranks;
  std::istringstream words(layout);
  for (std::string place; std::getline(words, place, ',');) {
    Machine machine = make_box({.numa_nodes = 4});
    machine.name = "host" + place;
    PretendedRank rank{.host = machine.name, .machine = nullptr, .cpus = machine.cpus};
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

}  // namespace hymn::test
