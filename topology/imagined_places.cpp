#include "topology/imagined_places.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace hymn {
namespace {

// Cores in the order of their lowest CPU, each cut down to what the machine grants.
std::vector<CpuSet> granted_cores(const Machine& machine) {
  std::vector<CpuSet> cores;
  for (const Core& core : machine.cores) {
    const CpuSet granted =
        machine.allowed_cpus.empty() ? core.cpus : core.cpus & machine.allowed_cpus;
    if (!granted.empty()) cores.push_back(granted);
  }
  std::ranges::sort(cores, {}, [](const CpuSet& cpus) { return cpus.first(); });
  return cores;
}

}  // namespace

std::vector<RankRecord> spread_ranks(const Machine& machine, int ranks, int first_rank) {
  const std::vector<CpuSet> cores = granted_cores(machine);
  const auto count = static_cast<std::size_t>(std::max(ranks, 0));
  const bool share_all = count > cores.size();
  std::vector<RankRecord> records(count);
  for (std::size_t i = 0; i < count; ++i) {
    records[i].rank = first_rank + static_cast<int>(i);
    const std::size_t begin = share_all ? 0 : i * cores.size() / count;
    const std::size_t end = share_all ? cores.size() : (i + 1) * cores.size() / count;
    for (std::size_t core = begin; core < end; ++core) records[i].cpus |= cores[core];
  }
  return records;
}

std::string imagined_host_name(const ImaginedHosts& hosts, int host) {
  if (hosts.hosts == 1 && !hosts.machine->name.empty()) return hosts.machine->name;
  return fmt::format("node{}", host);
}

ImaginedPlaces::ImaginedPlaces(const ImaginedHosts& hosts, int ranks, RankOrder order)
    : hosts_(hosts), ranks_(ranks), order_(order) {
  hosts_.hosts = std::min(hosts_.hosts, ranks);
}

// The first hosts have one rank more, where they do not come out even.
int ImaginedPlaces::ranks_on(int host) const {
  return ranks_ / hosts() + (host < ranks_ % hosts() ? 1 : 0);
}

ImaginedPlaces::Spot ImaginedPlaces::spot_of(int rank) const {
  switch (order_) {
    case RankOrder::round_robin:
      return {rank % hosts(), rank / hosts()};
    case RankOrder::block:
      break;
  }
  const int each = ranks_ / hosts();
  const int larger = ranks_ % hosts();
  const int in_larger = larger * (each + 1);
  if (rank < in_larger) return {rank / (each + 1), rank % (each + 1)};
  return {larger + (rank - in_larger) / each, (rank - in_larger) % each};
}

int ImaginedPlaces::rank_at(Spot spot) const {
  switch (order_) {
    case RankOrder::round_robin:
      return spot.local * hosts() + spot.host;
    case RankOrder::block:
      break;
  }
  return spot.host * (ranks_ / hosts()) + std::min(spot.host, ranks_ % hosts()) + spot.local;
}

const std::vector<RankPlace>& ImaginedPlaces::places_of(int ranks_there) {
  std::vector<RankPlace>& places = places_[ranks_there];
  const Machine& machine = *hosts_.machine;
  if (places.empty()) places = place_on_host(machine, spread_ranks(machine, ranks_there));
  return places;
}

const HostSummary& ImaginedPlaces::summary_of(int host, const std::vector<int>& locals) {
  const int here = ranks_on(host);
  const auto [known, is_new] = summaries_.try_emplace({here, locals});
  if (!is_new) return known->second;
  const std::vector<RankPlace>& all = places_of(here);
  std::vector<RankPlace> some;
  for (const int local : locals) some.push_back(all[static_cast<std::size_t>(local)]);
  return known->second = summarise(*hosts_.machine, 0, some);
}

GroupLayout ImaginedPlaces::layout_of(std::span<const int> members) {
  GroupLayout layout{.size = static_cast<int>(members.size()), .hosts = {}};
  std::vector<int> hosts;  // in the order of their lowest members
  std::map<int, std::vector<int>> locals;
  int last = -1;
  for (const int rank : members) {
    const Spot spot = spot_of(rank);
    std::vector<int>& here = locals[spot.host];
    if (here.empty())
      hosts.push_back(spot.host);
    else if (spot.host != last)
      layout.in_rank_order = false;
    here.push_back(spot.local);
    last = spot.host;
  }
  for (const int host : hosts) layout.hosts.push_back(summary_of(host, locals[host]));
  return layout;
}

JobMap ImaginedPlaces::map_for(int rank) {
  const Spot own = spot_of(rank);
  JobMap map;
  map.host = own.host;
  map.host_name = name_of(own.host);
  for (int host = 0; host < hosts(); ++host) map.host_names.push_back(name_of(host));
  map.machines.push_back(hosts_.machine);
  map.places = places_of(ranks_on(own.host));
  for (RankPlace& place : map.places) place.rank = rank_at({own.host, place.local_rank});
  map.me = static_cast<std::size_t>(own.local);
  map.world = {.size = ranks_, .hosts = {}};
  map.world.in_rank_order = order_ == RankOrder::block || hosts() == 1 || hosts() == ranks_;
  std::vector<int> locals;
  for (int host = 0; host < hosts(); ++host) {
    locals.resize(static_cast<std::size_t>(ranks_on(host)));
    std::iota(locals.begin(), locals.end(), 0);
    map.world.hosts.push_back(summary_of(host, locals));
  }
  return map;
}

}  // namespace hymn
