// Where the ranks of a job lie on machines that need not be here.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "tools/machine_source.hpp"

namespace hymn {

/// How ranks are given to hosts.
enum class RankOrder : unsigned char {
  block,        ///< as many as come to each, one host after the other
  round_robin,  ///< one to each host in turn
};

class ImaginedPlaces {
 public:
  /// As evenly as can be.
  ImaginedPlaces(const MachineSource& source, int ranks, RankOrder order);

  int ranks() const { return ranks_; }
  int hosts() const { return hosts_; }
  /// Of these ranks, all of which there are.
  GroupLayout layout_of(std::span<const int> members);

 private:
  struct Spot {
    int host = 0;
    int local = 0;  ///< among the ranks of the host
  };
  Spot spot_of(int rank) const;
  int ranks_on(int host) const;
  const HostSummary& summary_of(int host, const std::vector<int>& locals);

  const Machine& machine_;
  int ranks_;
  int hosts_;
  RankOrder order_;
  std::map<int, std::vector<RankPlace>> places_;                         ///< by ranks on a host
  std::map<std::pair<int, std::vector<int>>, HostSummary> summaries_{};  ///< and which of them
};

}  // namespace hymn
