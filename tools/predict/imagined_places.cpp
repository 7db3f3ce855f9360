#include "tools/predict/imagined_places.hpp"

#include <algorithm>

#include "collectives/plan.hpp"

namespace hymn {

ImaginedPlaces::ImaginedPlaces(const MachineSource& source, int ranks, RankOrder order)
    : machine_(*source.machine),
      ranks_(ranks),
      hosts_(std::min(source.hosts, ranks)),
      order_(order) {}

int ImaginedPlaces::ranks_on(int host) const {
  return static_cast<int>(even_slice(static_cast<std::size_t>(ranks_), host, hosts_).count);
}

ImaginedPlaces::Spot ImaginedPlaces::spot_of(int rank) const {
  switch (order_) {
    case RankOrder::round_robin:
      return {rank % hosts_, rank / hosts_};
    case RankOrder::block:
      break;
  }
  // The first hosts have one rank more, where they do not come out even.
  const int each = ranks_ / hosts_;
  const int larger = ranks_ % hosts_;
  const int in_larger = larger * (each + 1);
  if (rank < in_larger) return {rank / (each + 1), rank % (each + 1)};
  return {larger + (rank - in_larger) / each, (rank - in_larger) % each};
}

const HostSummary& ImaginedPlaces::summary_of(int host, const std::vector<int>& locals) {
  const int here = ranks_on(host);
  const auto [known, is_new] = summaries_.try_emplace({here, locals});
  if (!is_new) return known->second;
  std::vector<RankPlace>& all = places_[here];
  if (all.empty()) all = place_on_host(machine_, spread_ranks(machine_, here));
  std::vector<RankPlace> some;
  for (const int local : locals) some.push_back(all[static_cast<std::size_t>(local)]);
  return known->second = summarise(machine_, 0, some);
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

}  // namespace hymn
