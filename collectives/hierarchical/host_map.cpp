#include "collectives/hierarchical/host_map.hpp"

#include <algorithm>

namespace hymn {

HostMap::HostMap(const std::vector<int>& host_of, int rank) : place_(host_of.size()), first_{0} {
  std::vector<int> met;
  for (const int host : host_of)
    if (std::find(met.begin(), met.end(), host) == met.end()) met.push_back(host);
  for (const int host : met) {
    for (std::size_t member = 0; member < host_of.size(); ++member) {
      if (host_of[member] != host) continue;
      place_[member] = members();
      order_.push_back(static_cast<int>(member));
    }
    first_.push_back(members());
  }
  if (order_.empty()) return;
  leaders_ = most_leaders;
  for (int host = 0; host < hosts(); ++host) leaders_ = std::min(leaders_, members_on(host));
  my_host_ = this->host_of(rank);
  my_place_ = place_of(rank);
}

int HostMap::largest_host() const {
  int most = 0;
  for (int host = 0; host < hosts(); ++host) most = std::max(most, members_on(host));
  return most;
}

bool HostMap::in_rank_order() const { return std::is_sorted(order_.begin(), order_.end()); }

int HostMap::host_of(int rank) const {
  const auto behind = std::upper_bound(first_.begin(), first_.end(), place_of(rank));
  return static_cast<int>(behind - first_.begin()) - 1;
}

}  // namespace hymn
