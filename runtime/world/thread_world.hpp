// Ranks as threads on hosts that are not there: for tests of what depends on where ranks are.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "hymn/world.hpp"
#include "runtime/mechanisms/nccl_mechanism.hpp"
#include "runtime/world/rank_seams.hpp"
#include "topology/machine.hpp"

namespace hymn {

/// GPUs that are not there, by doubles of NVIDIA's libraries.
struct PretendedGpus {
  GpuLibraries libraries;
  MemoryQuery* memory = nullptr;
};

/// Where a rank pretends to be, and with what settings.
struct PretendedRank {
  std::string host;
  std::shared_ptr<const Machine> machine;  ///< null: config.topology_file tells it
  CpuSet cpus;
  Config config{};
  std::string visible_gpus{};  ///< ranks of a host with different values have machines of their own
  const PretendedGpus* gpus = nullptr;  ///< null: those of this host
};

/// As run_ranks, one rank for each of `ranks`. They meet as processes of their own do; nothing is
/// really bound. `seams`: null: nothing stands between them.
void run_pretended_ranks(const std::vector<PretendedRank>& ranks,
                         const std::function<void(World&)>& rank_main,
                         const WorldOptions& options = {}, RankSeams* seams = nullptr);

}  // namespace hymn
