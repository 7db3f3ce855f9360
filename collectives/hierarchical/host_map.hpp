// Which members of a group are on which host, and who leads there: index arithmetic, no data.
#pragma once

#include <vector>

#include "collectives/plan.hpp"

namespace hymn {

/// The hosts of a group in order of their lowest member. Members in "host order" are those of the
/// first host, then those of the second, and so on; on a host in order of group ranks.
///
/// The first few members on each host are its leaders: leader j of a host exchanges messages with
/// leader j of every other one.
class HostMap {
 public:
  /// More do not make the network faster, but cost messages.
  static constexpr int most_leaders = 4;

  /// `host_of`: some number of its host for each group rank. Empty: no hosts.
  HostMap(const std::vector<int>& host_of, int rank);

  int hosts() const { return static_cast<int>(first_.size()) - 1; }
  int members() const { return static_cast<int>(order_.size()); }
  int members_on(int host) const { return first(host + 1) - first(host); }
  /// As many on every host: no more than the smallest host has members.
  int leaders() const { return leaders_; }
  int largest_host() const;
  /// Whether the ranks of each host follow one another: host order is that of the ranks.
  bool in_rank_order() const;

  /// Place in host order of a host's first member.
  int first(int host) const { return first_[static_cast<std::size_t>(host)]; }
  /// The group rank at a place in host order.
  int rank_at(int place) const { return order_[static_cast<std::size_t>(place)]; }
  /// The opposite.
  int place_of(int rank) const { return place_[static_cast<std::size_t>(rank)]; }
  int leader(int host, int index) const { return rank_at(first(host) + index); }
  int host_of(int rank) const;
  /// Among the members on its host.
  int index_of(int rank) const { return place_of(rank) - first(host_of(rank)); }

  int my_host() const { return my_host_; }
  int my_place() const { return my_place_; }

 private:
  std::vector<int> order_;
  std::vector<int> place_;
  std::vector<int> first_;  // one more than there are hosts
  int leaders_ = 0;
  int my_host_ = 0;
  int my_place_ = 0;
};

}  // namespace hymn
