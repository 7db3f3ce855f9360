#include "topology/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "hymn/error.hpp"
#include "topology/core_use.hpp"

namespace hymn {
namespace {

/// The only one of `domains` (packages, NUMA nodes) on which all of `cpus` lie, or -1.
template <class Domain>
int only_domain(const std::vector<Domain>& domains, const CpuSet& cpus) {
  if (cpus.empty()) return -1;
  const auto found = std::find_if(domains.begin(), domains.end(),
                                  [&](const Domain& domain) { return domain.cpus.includes(cpus); });
  return found == domains.end() ? -1 : static_cast<int>(found - domains.begin());
}

template <class Domain>
int count_domains(const std::vector<Domain>& domains, const CpuSet& cpus) {
  const auto count = std::count_if(domains.begin(), domains.end(), [&](const Domain& domain) {
    return domain.cpus.intersects(cpus);
  });
  return std::max(1, static_cast<int>(count));
}

/// A rank that cannot tell its CPUs may use whatever its host grants.
const CpuSet& cpus_of(const Machine& machine, const RankRecord& record) {
  if (!record.cpus.empty()) return record.cpus;
  return machine.allowed_cpus.empty() ? machine.cpus : machine.allowed_cpus;
}

/// Gives each rank of a host its GPU.
class GpuDeal {
 public:
  struct Waiting {
    const RankRecord* record;
    RankPlace* place;
  };

  GpuDeal(const Machine& machine, std::vector<RankPlace>& places)
      : machine_(machine), places_(places), users_(machine.gpus.size()) {}

  void want(RankPlace& place, int gpu) {
    if (gpu >= static_cast<int>(machine_.gpus.size()))
      throw UsageError(fmt::format("rank {} is to use GPU {}, but only {} are visible", place.rank,
                                   gpu, machine_.gpus.size()),
                       {.remedy = "give another HYMN_GPU, or check CUDA_VISIBLE_DEVICES"});
    give(place, gpu);
  }

  /// Evenly first, then by nearness: a GPU that others use is worse than one that is far away. All
  /// ranks choose among the near ones before any takes one that is near to somebody else.
  void deal(const std::vector<Waiting>& waiting) {
    if (machine_.gpus.empty()) return;
    constexpr auto same_numa = [](const Gpu& gpu, const RankPlace& place) {
      return place.numa >= 0 && gpu.numa == place.numa;
    };
    constexpr auto same_package = [](const Gpu& gpu, const RankPlace& place) {
      return place.package >= 0 && gpu.package == place.package;
    };
    constexpr auto any = [](const Gpu&, const RankPlace&) { return true; };
    const auto has_none = [](const Waiting& rank) { return rank.place->gpu < 0; };
    for (int most = 1; std::any_of(waiting.begin(), waiting.end(), has_none); ++most)
      for (bool (*near)(const Gpu&, const RankPlace&) : {+same_numa, +same_package, +any})
        for (const Waiting& rank : waiting)
          if (has_none(rank)) give_near(rank, near, most);
  }

  void count_sharers() {
    for (RankPlace& place : places_)
      if (place.gpu >= 0) place.gpu_sharers = users_[static_cast<std::size_t>(place.gpu)];
  }

 private:
  void give(RankPlace& place, int gpu) {
    place.gpu = gpu;
    ++users_[static_cast<std::size_t>(gpu)];
  }

  static bool can_see(const RankRecord& record, int gpu) {
    const std::vector<int>& seen = record.seen_gpus;
    return seen.empty() || std::find(seen.begin(), seen.end(), gpu) != seen.end();
  }

  template <class Near>
  void give_near(const Waiting& rank, Near near, int most) {
    for (std::size_t gpu = 0; gpu < users_.size(); ++gpu)
      if (users_[gpu] < most && near(machine_.gpus[gpu], *rank.place) &&
          can_see(*rank.record, static_cast<int>(gpu)))
        return give(*rank.place, static_cast<int>(gpu));
  }

  const Machine& machine_;
  std::vector<RankPlace>& places_;
  std::vector<int> users_;  // of each GPU
};

template <class Value>
auto most_of(const GroupLayout& layout, Value HostSummary::* member) {
  Value most{};
  for (const HostSummary& host : layout.hosts) most = std::max(most, host.*member);
  return most;
}

}  // namespace

std::vector<RankPlace> place_on_host(const Machine& machine, std::span<const RankRecord> records) {
  std::vector<RankRecord> ordered(records.begin(), records.end());
  std::sort(ordered.begin(), ordered.end(),
            [](const RankRecord& a, const RankRecord& b) { return a.rank < b.rank; });
  std::vector<RankPlace> places;
  std::vector<CpuSet> cores;
  for (const RankRecord& record : ordered) {
    RankPlace& place = places.emplace_back();
    place.rank = record.rank;
    place.local_rank = static_cast<int>(places.size()) - 1;
    place.cpus = cpus_of(machine, record);
    const CpuSet known = place.cpus & machine.cpus;
    place.package = only_domain(machine.packages, known);
    place.numa = only_domain(machine.numa_nodes, known);
    cores.push_back(cores_of(machine, place.cpus));
  }
  for (std::size_t i = 0; i < places.size(); ++i)
    places[i].core_sharers =
        static_cast<int>(1 + std::count_if(cores.begin(), cores.end(), [&](const CpuSet& other) {
                           return &other != &cores[i] && other.intersects(cores[i]);
                         }));
  GpuDeal deal(machine, places);
  std::vector<GpuDeal::Waiting> waiting;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (ordered[i].wants_no_gpu) continue;
    if (ordered[i].wanted_gpu >= 0)
      deal.want(places[i], ordered[i].wanted_gpu);
    else
      waiting.push_back({&ordered[i], &places[i]});
  }
  deal.deal(waiting);
  deal.count_sharers();
  return places;
}

void summarise_gpus(const Machine& machine, std::span<const int> gpus, HostSummary& summary) {
  summary.ranks_without_gpu = 0;
  summary.most_sharers = 0;
  summary.worst_link = GpuLinkKind::self;
  summary.least_bandwidth = 0;
  summary.all_peers = true;
  std::map<int, int> users;
  for (const int gpu : gpus) {
    if (gpu < 0)
      ++summary.ranks_without_gpu;
    else
      summary.most_sharers = std::max(summary.most_sharers, ++users[gpu]);
  }
  summary.gpus = static_cast<int>(users.size());
  bool first = true;
  for (const auto& from : users) {
    for (const auto& to : users) {
      if (from.first == to.first) continue;
      const GpuLink& link =
          machine.link(static_cast<std::size_t>(from.first), static_cast<std::size_t>(to.first));
      summary.worst_link = std::max(summary.worst_link, link.kind);
      // A pair of which nothing is known leaves nothing to be said about all.
      summary.least_bandwidth =
          first ? link.bandwidth : std::min(summary.least_bandwidth, link.bandwidth);
      if (link.peer_access == false) summary.all_peers = false;
      first = false;
    }
  }
}

HostSummary summarise(const Machine& machine, int machine_kind, std::span<const RankPlace> places) {
  HostSummary summary;
  summary.machine = machine_kind;
  summary.ranks = static_cast<int>(places.size());
  std::vector<int> gpus;
  for (const RankPlace& place : places) gpus.push_back(place.gpu);
  CpuSet together;
  std::vector<CpuSet> cores;
  for (const RankPlace& place : places) {
    together |= place.cpus;
    cores.push_back(cores_of(machine, place.cpus));
  }
  summary.packages = count_domains(machine.packages, together);
  summary.numa_nodes = count_domains(machine.numa_nodes, together);
  summary.cores = std::max(1, cores_of(machine, together).count());
  summary.oversubscribed = places.size() > 1 && !enough_cores(cores);
  summarise_gpus(machine, gpus, summary);
  return summary;
}

int GroupLayout::largest_host() const { return most_of(*this, &HostSummary::ranks); }

int GroupLayout::smallest_host() const {
  int fewest = hosts.empty() ? 0 : hosts.front().ranks;
  for (const HostSummary& host : hosts) fewest = std::min(fewest, host.ranks);
  return fewest;
}

bool GroupLayout::oversubscribed() const { return most_of(*this, &HostSummary::oversubscribed); }

int GroupLayout::ranks_without_gpu() const {
  int ranks = 0;
  for (const HostSummary& host : hosts) ranks += host.ranks_without_gpu;
  return ranks;
}

int GroupLayout::most_gpu_sharers() const { return most_of(*this, &HostSummary::most_sharers); }

GpuLinkKind GroupLayout::worst_gpu_link() const { return most_of(*this, &HostSummary::worst_link); }

double GroupLayout::least_gpu_bandwidth() const {
  double least = 0;
  bool first = true;
  for (const HostSummary& host : hosts) {
    if (host.gpus < 2) continue;
    least = first ? host.least_bandwidth : std::min(least, host.least_bandwidth);
    first = false;
  }
  return least;
}

bool GroupLayout::all_gpu_peers() const {
  return std::all_of(hosts.begin(), hosts.end(),
                     [](const HostSummary& host) { return host.all_peers; });
}

}  // namespace hymn
