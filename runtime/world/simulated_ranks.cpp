#include <fmt/format.h>

#include <map>

#include "runtime/world/rank_seams.hpp"
#include "runtime/world/thread_world.hpp"

namespace hymn {
namespace {

/// Of one package, without GPUs.
std::shared_ptr<const Machine> machine_of(const std::string& host, int cores) {
  Machine machine;
  machine.name = host;
  machine.source = "a simulation";
  machine.cpus = CpuSet::range(0, cores - 1);
  machine.allowed_cpus = machine.cpus;
  machine.packages.push_back({.os_index = 0, .cpus = machine.cpus, .model = {}});
  machine.numa_nodes.push_back(
      {.os_index = 0, .package = 0, .cpus = machine.cpus, .memory_bytes = std::uint64_t{64} << 30});
  for (int core = 0; core < cores; ++core)
    machine.cores.push_back(
        {.os_index = core, .package = 0, .numa = 0, .cpus = CpuSet::range(core, core)});
  check_machine(machine);
  return std::make_shared<const Machine>(std::move(machine));
}

}  // namespace

void run_simulated_ranks(std::span<const int> hosts, const std::function<void(World&)>& rank_main,
                         const WorldOptions& options, RankSeams& seams) {
  std::map<int, int> ranks_of;
  for (const int host : hosts) ++ranks_of[host];
  std::map<int, std::shared_ptr<const Machine>> machines;
  for (const auto& [host, ranks] : ranks_of)
    machines[host] = machine_of(fmt::format("host{}", host), ranks);
  const Config config = Config::from_environment();
  std::map<int, int> placed;
  std::vector<PretendedRank> ranks;
  for (const int host : hosts) {
    const int core = placed[host]++;
    ranks.push_back({.host = machines[host]->name,
                     .machine = machines[host],
                     .cpus = CpuSet::range(core, core),
                     .config = config});
  }
  run_pretended_ranks(ranks, rank_main, options, &seams);
}

}  // namespace hymn
