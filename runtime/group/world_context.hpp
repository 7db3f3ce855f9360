// What the groups of a world share on this rank, part by part.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "recorder/call_metrics.hpp"
#include "recorder/group_registry.hpp"
#include "recorder/recorder_memory.hpp"
#include "runtime/group/group_owner.hpp"
#include "runtime/group/progress_engine.hpp"
#include "runtime/rank/incidents.hpp"
#include "runtime/rank/peer_directory.hpp"
#include "runtime/rank/peer_inquiry.hpp"
#include "runtime/rank/peer_records.hpp"
#include "runtime/rank/world_failures.hpp"
#include "runtime/rank/world_life.hpp"
#include "runtime/rank/world_settings.hpp"

namespace hymn::detail {

struct WorldContext {
  /// What it is made of beside the settings.
  struct Means {
    std::shared_ptr<const Exchange> exchange;
    const std::vector<std::unique_ptr<Mechanism>>& mechanisms;
    std::shared_ptr<EarlySight> early;  ///< may be null
    const ControlPlane* control;        ///< null: there is none
    GroupOwner& groups;
    bool counts;  ///< metrics
  };
  WorldContext(WorldSettings chosen, Means means);
  WorldContext(const WorldContext&) = delete;
  WorldContext& operator=(const WorldContext&) = delete;
  ~WorldContext();

  int rank() const { return settings.rank; }
  const Clock& clock() const { return *settings.clock; }
  CallRing& ring() { return recorder.ring(); }
  const CallRing& ring() const { return recorder.ring(); }
  /// Whose failure it is that this rank breaks off: its own, unless it has seen another's.
  GroupFailure cause_of_leaving() const;
  /// What is known to be wrong with the ways to these ranks; empty: nothing.
  std::string trouble_with(std::span<const int> ranks) const;
  /// Of a thread that waits: it moves what is in flight meanwhile.
  Patience patience(std::string purpose, Timeout timeout) const;
  /// The same for what all of these make together: throws a PeerError soon after one of them is
  /// gone.
  Patience making_patience(std::string purpose, Timeout timeout, std::vector<int> ranks) const;
  /// When all of them have met: one that has ended its world since may have done its part.
  Patience completing_patience(std::string purpose, Timeout timeout, std::vector<int> ranks) const;
  Patience watching_patience(std::string purpose, Timeout timeout, Company company) const;

  const WorldSettings settings;
  const Logger logger;
  RecorderMemory recorder;
  GroupRegistry registry;  ///< all groups that dumps tell of
  WorldLife life;
  bool oversubscribed = true;  ///< until it is known
  std::unique_ptr<ProgressEngine> engine{};
  std::atomic<ProgressEngine*> watched_engine{nullptr};  ///< once the watchdog may look at it
  std::unique_ptr<CallMetrics> metrics;                  ///< null: nothing is counted
  PeerDirectory peers;
  PeerRecords records;
  PeerInquiry inquiry;
  WorldFailures failures;
  Incidents incidents;
  GroupOwner& groups;

 private:
  const std::vector<std::unique_ptr<Mechanism>>& mechanisms_;
};

}  // namespace hymn::detail
