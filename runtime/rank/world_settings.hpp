// What a rank of a world was asked for, and by what means; fixed when the world is made.
#pragma once

#include <optional>

#include "base/clock.hpp"
#include "base/config.hpp"
#include "base/paths.hpp"
#include "collectives/dispatch/algo_policy.hpp"
#include "hymn/process_group.hpp"
#include "runtime/rank/arrival.hpp"
#include "runtime/rank/fake_job.hpp"

namespace hymn {
class MemoryQuery;
}

namespace hymn::detail {

struct WorldSettings {
  Config config;
  int rank;
  int size;
  const Clock* clock;
  MemoryQuery* memory;  ///< of pointers; null: no GPU can be used
  Timeout default_timeout;
  Timeout gpu_timeout;   ///< the same for groups whose members all have a GPU
  Timeout init_timeout;  ///< unset: as the limit of operations
  PathPolicy path;
  AlgoPolicy algo;
  Reproducibility reproducibility;
  CheckLevel checks;
  bool own_thread;
  bool in_one_process;  ///< all ranks are threads of this process
  std::optional<PretendedSite> site;
  std::shared_ptr<const FakeJob> fake;  ///< null: the other ranks are there
  bool is_hidden = false;               ///< other processes are not to find its record
  /// Called every few microseconds by a thread that waits in a blocking call, for what others may
  /// need of it meanwhile beside hymn; it never throws. Null: nothing.
  void (*meanwhile)() = nullptr;

  Timeout init_limit() const { return init_timeout.or_else(default_timeout); }
  /// How long the members of a new group wait for each other.
  Timeout making_limit(const GroupOptions& options) const {
    return options.init_timeout.or_else(init_timeout)
        .or_else(options.timeout)
        .or_else(default_timeout);
  }
};

}  // namespace hymn::detail
