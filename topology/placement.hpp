// Where the ranks of a job are, on the machines that they run on. Pure functions over values.
//
// Nobody holds all ranks' places: a rank knows those of its own host, and a summary of each other
// host, so memory grows with the ranks of a host and the number of hosts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/private.hpp"
#include "topology/machine.hpp"

namespace hymn {

/// What one rank says of itself to the ranks of its host.
struct RankRecord {
  int rank = -1;                 ///< global
  CpuSet cpus;                   ///< that it may run on
  int wanted_gpu = -1;           ///< index in Machine::gpus that it asked for; -1: choose
  bool wants_no_gpu = false;     ///< it works without one
  std::vector<int> seen_gpus{};  ///< indices of those that it can see; empty: all
  friend bool operator==(const RankRecord&, const RankRecord&) = default;
};

/// Where one rank is.
struct RankPlace {
  int rank = -1;        ///< global
  int local_rank = -1;  ///< among the ranks of its host, in order of global ranks
  int package = -1;     ///< -1: spans several, or not known
  int numa = -1;        ///< the same
  CpuSet cpus;
  int gpu = -1;          ///< index in Machine::gpus; -1: none
  int gpu_sharers = 0;   ///< ranks that use that GPU, this one counted
  int core_sharers = 1;  ///< ranks of this host that may run on a core of this one's, it counted
  friend bool operator==(const RankPlace&, const RankPlace&) = default;
};

/// What others need to know of the ranks of one group on one host. Small, of fixed size.
struct HostSummary {
  int machine = -1;  ///< which kind: hosts with one fingerprint have one number
  int ranks = 0;
  int packages = 1;  ///< on which they lie; a rank that spans several counts all
  int numa_nodes = 1;
  int cores = 1;                ///< that they may use together
  bool oversubscribed = false;  ///< more ranks than cores
  int gpus = 0;                 ///< different ones that they use
  int ranks_without_gpu = 0;
  int most_sharers = 0;  ///< of one GPU
  /// Over all pairs of different GPUs in use; `self` when there are no pairs.
  GpuLinkKind worst_link = GpuLinkKind::self;
  double least_bandwidth = 0;  ///< of a pair; 0: no pairs, or not known
  bool all_peers = true;       ///< no pair is known to lack peer access
  friend bool operator==(const HostSummary&, const HostSummary&) = default;
};

/// Places the ranks of one host, given in any order; the result is in order of global ranks. GPUs
/// are given out by what a rank wants, else by locality (the GPUs of its NUMA node, then package)
/// and local rank, evenly. Throws UsageError when a rank wants a GPU that is not there.
HYMN_PRIVATE std::vector<RankPlace> place_on_host(const Machine& machine,
                                                  std::span<const RankRecord> records);

/// Of those of `places` that belong to a group (all given ones do).
HYMN_PRIVATE HostSummary summarise(const Machine& machine, int machine_kind,
                                   std::span<const RankPlace> places);

/// Writes what a summary tells of GPUs: of those that a group's ranks on one host use, as indices
/// in Machine::gpus; -1 for a rank without one.
void summarise_gpus(const Machine& machine, std::span<const int> gpus, HostSummary& summary);

/// How the members of a group lie on their hosts: what the planner decides by. Equal on all
/// members.
struct GroupLayout {
  int size = 0;
  std::vector<HostSummary> hosts;  ///< in order of their lowest member
  bool in_rank_order = true;       ///< the ranks of each host follow one another
  friend bool operator==(const GroupLayout&, const GroupLayout&) = default;

  HYMN_PRIVATE int largest_host() const;   ///< most ranks on one host
  HYMN_PRIVATE int smallest_host() const;  ///< fewest
  bool one_host() const { return hosts.size() == 1; }
  HYMN_PRIVATE bool oversubscribed() const;  ///< on any host
  int ranks_without_gpu() const;
  HYMN_PRIVATE int most_gpu_sharers() const;
  HYMN_PRIVATE GpuLinkKind worst_gpu_link() const;
  double least_gpu_bandwidth() const;
  bool all_gpu_peers() const;
};

/// The world as one rank sees it.
struct JobMap {
  std::string host_name;                                 ///< of this rank's host
  int host = 0;                                          ///< its index in `world.hosts`
  std::vector<std::string> host_names;                   ///< in the order of `world.hosts`
  std::vector<std::shared_ptr<const Machine>> machines;  ///< by kind
  std::vector<RankPlace> places;                         ///< of this host's ranks, by global rank
  std::size_t me = 0;                                    ///< this rank's index in `places`
  GroupLayout world;

  const Machine& machine() const {
    return *machines[static_cast<std::size_t>(world.hosts[static_cast<std::size_t>(host)].machine)];
  }
  const RankPlace& place() const { return places[me]; }
};

}  // namespace hymn
