// World::fake: a rank whose job is not there.
#include <fmt/format.h>

#include <utility>

#include "runtime/world/machine_cache.hpp"
#include "runtime/world/world_state.hpp"
#include "topology/read_machine.hpp"

namespace hymn {
namespace {

// Each of them takes some memory.
constexpr int most_ranks = 1 << 20;

/// Nothing arrives, and nothing comes.
class LoneExchange final : public Exchange {
 public:
  LoneExchange(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void send(int, std::uint64_t, std::span<const std::byte>) override {}
  std::optional<ExchangeMessage> try_receive(int, std::uint64_t) override { return std::nullopt; }
  std::string name() const override { return "nothing, in a fake world"; }

 private:
  int rank_;
  int size_;
};

void require_right(int size, int rank, const FakeTopology& topology) {
  const auto refuse = [&](std::string problem, std::string remedy) {
    throw UsageError(std::move(problem),
                     {.rank = rank, .operation = "World::fake", .remedy = std::move(remedy)});
  };
  if (size < 1) refuse(fmt::format("a world of {} ranks", size), "ask for at least one");
  if (size > most_ranks)
    refuse(fmt::format("a world of {} ranks", size), fmt::format("ask for at most {}", most_ranks));
  if (rank < 0 || rank >= size)
    refuse(fmt::format("rank {} of a world of {}", rank, size), "ranks count from 0");
  if (topology.hosts < 1 || topology.hosts > most_hosts)
    refuse(fmt::format("{} hosts", topology.hosts), fmt::format("ask for 1 to {}", most_hosts));
  if ((size - 1) / most_ranks_per_host >= topology.hosts)
    refuse(fmt::format("{} ranks on {} host(s)", size, topology.hosts),
           fmt::format("ask for at most {} on each", most_ranks_per_host));
  if (!topology.file.empty() && !topology.synthetic.empty())
    refuse("the machine is given twice, as a file and as a description", "give one of them");
}

std::shared_ptr<const Machine> machine_of(const FakeTopology& topology, const Config& config) {
  if (!topology.file.empty())
    return std::make_shared<const Machine>(read_machine_file(topology.file));
  if (!topology.synthetic.empty())
    return std::make_shared<const Machine>(read_synthetic(topology.synthetic));
  return known_machine(config.topology_file)->machine;
}

}  // namespace

World World::fake(int size, int rank, const FakeTopology& topology, const WorldOptions& options) {
  require_right(size, rank, topology);
  detail::WorldParts parts(Config::from_environment(), options);
  const RankOrder order = topology.round_robin ? RankOrder::round_robin : RankOrder::block;
  ImaginedPlaces places({machine_of(topology, parts.config), topology.hosts}, size, order);
  const JobMap map = places.map_for(rank);
  parts.site = {map.host_name, places.machine(), map.place().cpus};
  parts.fake = std::make_shared<const FakeJob>(std::move(places));
  parts.exchange = std::make_shared<LoneExchange>(rank, size);
  parts.in_one_process = true;  // nobody else reads what it records
  return World(detail::WorldState::make(std::move(parts)));
}

}  // namespace hymn
