// How long it takes to place and plan a large job, and what one rank keeps of it.
//
//   build/bin/bench_placement [hosts] [ranks per host]
//
// The default is 4096 hosts with 8 ranks each. In a real job each host places its own ranks and
// tells the summary; here one process does it for all, one host after the other.
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "collectives/planner/planner.hpp"
#include "topology/placement.hpp"
#include "topology/read_machine.hpp"

namespace hymn {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// What the program has allocated, in the heap and in mappings of their own.
std::size_t allocated() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

/// Two processors of 56 cores with two hardware threads each, eight GPUs on NVSwitch.
Machine make_node() {
  Machine node = read_synthetic("pack:2 numa:1 core:56 pu:2");
  for (int i = 0; i < 8; ++i) {
    Gpu& gpu = node.gpus.emplace_back();
    gpu.index = i;
    gpu.uuid = fmt::format("GPU-{}", i);
    gpu.package = gpu.numa = i / 4;
  }
  node.gpu_links.assign(64, {GpuLinkKind::nvswitch, 450e9, true});
  for (std::size_t i = 0; i < 8; ++i) node.link(i, i) = {GpuLinkKind::self, 0, true};
  check_machine(node);
  return node;
}

/// The ranks of one host, each bound to an equal share of the cores.
std::vector<RankRecord> ranks_of(const Machine& node, int host, int ranks) {
  std::vector<RankRecord> records(static_cast<std::size_t>(ranks));
  const std::size_t cores = node.cores.size();
  for (std::size_t i = 0; i < records.size(); ++i) {
    records[i].rank = host * ranks + static_cast<int>(i);
    const std::size_t first = i * cores / records.size();
    const std::size_t past = std::max(first + 1, (i + 1) * cores / records.size());
    for (std::size_t core = first; core < past; ++core) records[i].cpus |= node.cores[core].cpus;
  }
  return records;
}

JobMap place_job(const std::shared_ptr<const Machine>& node, int hosts, int ranks) {
  JobMap map;
  map.machines.push_back(node);
  map.world.size = hosts * ranks;
  map.world.hosts.reserve(static_cast<std::size_t>(hosts));
  for (int host = 0; host < hosts; ++host) {
    std::vector<RankPlace> places = place_on_host(*node, ranks_of(*node, host, ranks));
    map.world.hosts.push_back(summarise(*node, 0, places));
    map.host_names.push_back(fmt::format("node{:04}", host));
    if (host == 0) map.places = std::move(places);
  }
  return map;
}

/// Asks for every algorithm's time, for each collective from 8 bytes to 1 GiB.
std::size_t plan_job(const JobMap& map, double& longest) {
  const PlanContext context{map.world, map.machines, nullptr};
  std::size_t asked = 0;
  for (const OpType type : {OpType::all_reduce, OpType::broadcast, OpType::all_gather,
                            OpType::reduce_scatter, OpType::all_to_all, OpType::barrier})
    for (std::size_t bytes = 8; bytes <= std::size_t{1} << 30; bytes *= 2)
      for (const AlgorithmModel* model : algorithm_models()) {
        const PlanQuery query{.type = type, .bytes = bytes};
        if (!model->serves.contains(type) || !model->can_run(query, context).ok) continue;
        longest = std::max(longest, model->seconds(query, context));
        ++asked;
      }
  return asked;
}

int run(int hosts, int ranks) {
  const auto node = std::make_shared<const Machine>(make_node());
  const std::size_t before = allocated();
  const auto start = Clock::now();
  const JobMap map = place_job(node, hosts, ranks);
  const double placing = seconds_since(start);
  const std::size_t kept = allocated() - before;
  const auto planning_start = Clock::now();
  double longest = 0;
  const std::size_t asked = plan_job(map, longest);
  const double planning = seconds_since(planning_start);
  fmt::print("{} hosts x {} ranks\n", hosts, ranks);
  fmt::print("  placed    {:8.3f} s\n", placing);
  fmt::print("  planned   {:8.3f} s   {} predictions, the longest {:.3g} s\n", planning, asked,
             longest);
  fmt::print("  together  {:8.3f} s\n", placing + planning);
  fmt::print("  each rank keeps {} bytes, {:.1f} a host\n", kept,
             static_cast<double>(kept) / hosts);
  return 0;
}

}  // namespace
}  // namespace hymn

int main(int argc, char** argv) {
  const int hosts = argc > 1 ? std::atoi(argv[1]) : 4096;
  const int ranks = argc > 2 ? std::atoi(argv[2]) : 8;
  if (hosts < 1 || ranks < 1 || hosts > 1'000'000 || ranks > 1024) {
    fmt::print(stderr, "usage: bench_placement [hosts] [ranks per host]\n");
    return 2;
  }
  return hymn::run(hosts, ranks);
}
