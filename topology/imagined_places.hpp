// Where the ranks of a job lie on machines that need not be here.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/private.hpp"
#include "topology/placement.hpp"

namespace hymn {

/// One kind of machine, and how many hosts are of it.
struct ImaginedHosts {
  std::shared_ptr<const Machine> machine;
  int hosts = 1;
};

/// The most hosts, and ranks on one host, that are imagined.
inline constexpr int most_hosts = 65536;
inline constexpr int most_ranks_per_host = 4096;

/// Equal shares of the cores that the machine grants, in the order of its CPUs; all cores for each
/// rank where ranks outnumber cores.
HYMN_PRIVATE std::vector<RankRecord> spread_ranks(const Machine& machine, int ranks,
                                                  int first_rank = 0);

/// "node3", or the machine's own name when it is the only host.
HYMN_PRIVATE std::string imagined_host_name(const ImaginedHosts& hosts, int host);

/// How ranks are given to hosts.
enum class RankOrder : unsigned char {
  block,        ///< as many as come to each, one host after the other
  round_robin,  ///< one to each host in turn
};

class ImaginedPlaces {
 public:
  /// As evenly as can be; on no more hosts than there are ranks.
  HYMN_PRIVATE ImaginedPlaces(const ImaginedHosts& hosts, int ranks, RankOrder order);

  int ranks() const { return ranks_; }
  int hosts() const { return hosts_.hosts; }
  int host_of(int rank) const { return spot_of(rank).host; }
  std::string name_of(int host) const { return imagined_host_name(hosts_, host); }
  const std::shared_ptr<const Machine>& machine() const { return hosts_.machine; }
  /// Of these ranks, all of which there are.
  HYMN_PRIVATE GroupLayout layout_of(std::span<const int> members);
  /// The job as that rank sees it.
  JobMap map_for(int rank);

 private:
  struct Spot {
    int host = 0;
    int local = 0;  ///< among the ranks of the host
  };
  Spot spot_of(int rank) const;
  int rank_at(Spot spot) const;
  int ranks_on(int host) const;
  const std::vector<RankPlace>& places_of(int ranks_there);
  const HostSummary& summary_of(int host, const std::vector<int>& locals);

  ImaginedHosts hosts_;
  int ranks_;
  RankOrder order_;
  std::map<int, std::vector<RankPlace>> places_{};                       ///< by ranks on a host
  std::map<std::pair<int, std::vector<int>>, HostSummary> summaries_{};  ///< and which of them
};

}  // namespace hymn
