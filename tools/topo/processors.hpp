// The processors' half of a host's picture, with the ranks on their cores.
#pragma once

#include <vector>

#include "tools/topo/blocks.hpp"

namespace hymn {

class ProcessorBlocks {
 public:
  ProcessorBlocks(const Machine& machine, const std::vector<RankPlace>& places);

  /// Both halves of a picture have one width: the package is at least as wide as its devices.
  Block package(std::size_t index, double least_width) const;
  /// NUMA nodes and cores that belong to no package.
  std::vector<Section> outside() const;
  /// The ranks that no block of a package or NUMA node shows.
  std::vector<std::size_t> spanning() const { return ranks_of(-1, -1); }

 private:
  /// What the ranks do to one core.
  struct CoreUse {
    int sharers = 0;
    int rank = -1;       ///< the last one seen, index in places_
    bool named = false;  ///< it is the core that shows this rank's number
  };
  /// The block that shows a rank which has no core of its own.
  struct Home {
    int package = -1;
    int numa = -1;
    bool on_core = false;
  };

  /// A cache and the cores that share it.
  struct CacheCores {
    std::string label;
    std::vector<std::size_t> cores;
  };

  void count_uses();
  void find_homes();
  int numa_of_core(const Core& core) const;
  Block numa(std::size_t index, double room) const;
  Section numa_nodes(int package, BlockKind parent, double width) const;
  Block core(std::size_t index) const;
  Block counted_cores(const std::vector<std::size_t>& which, std::string detail) const;
  Section cores(const std::vector<std::size_t>& which, double room) const;
  std::vector<CacheCores> split_by_cache(std::vector<std::size_t>& loose) const;
  std::vector<Section> cores_by_cache(const std::vector<std::size_t>& which, Block& parent,
                                      double width) const;
  std::vector<std::size_t> cores_of(int package, int numa) const;
  std::vector<std::size_t> ranks_of(int package, int numa) const;

  const Machine& machine_;
  const std::vector<RankPlace>& places_;
  std::vector<CoreUse> uses_;  ///< by core
  std::vector<Home> homes_;    ///< by rank
  bool squares_;               ///< cores are drawn one by one
  std::size_t most_badges_;
};

}  // namespace hymn
