// What carries the requests of a group out.
#pragma once

#include <memory>
#include <vector>

#include "collectives/dispatch/locate.hpp"
#include "collectives/dispatch/selector.hpp"
#include "collectives/nccl/channel.hpp"
#include "hymn/exchange.hpp"

namespace hymn::detail {

/// Empty on a rank that is not a member.
struct GroupMeans {
  std::unique_ptr<Selector> selector{};
  DeviceReach reach{};                   ///< what its paths can do on GPUs
  std::shared_ptr<NcclChannel> nccl{};   ///< null: NCCL cannot be used
  std::shared_ptr<Exchange> exchange{};  ///< of the group alone; null: this rank is no member
  /// Blocking calls without a limit are the mechanism's own blocking calls. They do not match the
  /// non-blocking ones of another rank, so this is settled among the members when the group is
  /// made, and never by what one rank alone sees.
  bool blocks = false;
  bool on_gpus = false;  ///< all members have a GPU

  /// Communicators of NCCL that were split from this group's on this rank.
  std::uint64_t comm_splits() const { return nccl ? nccl->splits() : 0; }
  std::vector<AlgorithmUse> uses() const {
    return selector ? selector->uses() : std::vector<AlgorithmUse>();
  }
};

}  // namespace hymn::detail
