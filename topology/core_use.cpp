#include "topology/core_use.hpp"

#include <map>
#include <set>

namespace hymn {
namespace {

// Finds each rank a core, and has earlier ranks move to another of theirs where that helps: an
// augmenting path in the graph of ranks and cores.
class Seating {
 public:
  explicit Seating(std::span<const CpuSet> cores_of_ranks) {
    for (const CpuSet& cores : cores_of_ranks) wishes_.push_back(cores.to_vector());
  }

  bool seat_all() {
    for (std::size_t rank = 0; rank < wishes_.size(); ++rank) {
      asked_.clear();
      if (!seat(rank)) return false;
    }
    return true;
  }

 private:
  bool seat(std::size_t rank) {
    for (const int core : wishes_[rank])
      if (taken_.try_emplace(core, rank).second) return true;
    for (const int core : wishes_[rank]) {
      if (!asked_.insert(core).second || !seat(taken_.at(core))) continue;
      taken_[core] = rank;
      return true;
    }
    return false;
  }

  std::vector<std::vector<int>> wishes_;
  std::map<int, std::size_t> taken_;
  std::set<int> asked_;
};

}  // namespace

CpuSet cores_of(const Machine& machine, const CpuSet& cpus) {
  CpuSet found;
  CpuSet unlisted = cpus;
  for (const Core& core : machine.cores) {
    if (!core.cpus.intersects(cpus)) continue;
    found.add(core.cpus.first());
    unlisted -= core.cpus;
  }
  return found | unlisted;
}

bool enough_cores(std::span<const CpuSet> cores_of_ranks) {
  CpuSet together;
  for (const CpuSet& cores : cores_of_ranks) together |= cores;
  if (static_cast<std::size_t>(together.count()) < cores_of_ranks.size()) return false;
  return Seating(cores_of_ranks).seat_all();
}

}  // namespace hymn
