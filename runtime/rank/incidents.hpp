// What a rank writes when something has gone wrong: dumps, and what its watchdog does about it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/log.hpp"
#include "recorder/group_registry.hpp"
#include "recorder/recorder_memory.hpp"
#include "recorder/watchdog.hpp"
#include "runtime/rank/peer_records.hpp"
#include "topology/placement.hpp"

namespace hymn {
struct DumpRequest;
}

namespace hymn::detail {

/// Thread-safe, once the watchdog is there.
class Incidents {
 public:
  Incidents(const WorldSettings& settings, const Logger& logger, const GroupRegistry& registry,
            const PeerDirectory& peers, const PeerRecords& records, RecorderMemory& recorder)
      : settings_(settings),
        logger_(logger),
        registry_(registry),
        peers_(peers),
        records_(records),
        recorder_(recorder) {}

  /// Makes the watchdog. `flush`: lets what this rank has told the others go out.
  void start(std::function<void()> flush);
  /// Null: it has not been made.
  Watchdog* watchdog() const { return watchdog_.get(); }
  /// Something has gone wrong here: this rank writes its dump, and all others do.
  void report(const Incident& incident);
  /// A group with this rank was given up, here or elsewhere: what the policy says is done.
  void group_failed(const GroupFailure& failure);
  /// A call of another library keeps this rank's only thread for ever: the process ends, after its
  /// dump, and those of all others.
  void end_process(const std::string& reason);
  /// The application wants a dump of all ranks.
  void dump(const std::string& reason);
  /// Another rank has asked for this one's.
  void dump_asked(const control::DumpNow& message);
  /// On behalf of a rank of this host that can say nothing any more; `here`: the ranks of the host.
  void dump_for(const PeerNews& news, std::span<const RankPlace> here);
  /// For a dump of this rank: all groups are in it.
  DumpRequest dump_request() const;

  /// A call of another library in which this rank may be stuck; `name` must stay.
  class OuterCall {
   public:
    OuterCall(Incidents& incidents, const char* name) : incidents_(incidents) {
      incidents_.enter_outer_call(name);
    }
    OuterCall(const OuterCall&) = delete;
    OuterCall& operator=(const OuterCall&) = delete;
    ~OuterCall() {
      incidents_.outer_call_.store(nullptr, std::memory_order_release);
      incidents_.recorder_.set_outer_call("", 0);
    }

   private:
    Incidents& incidents_;
  };

 private:
  void enter_outer_call(const char* name);

  const WorldSettings& settings_;
  const Logger& logger_;
  const GroupRegistry& registry_;
  const PeerDirectory& peers_;
  const PeerRecords& records_;
  RecorderMemory& recorder_;
  std::unique_ptr<Watchdog> watchdog_;
  std::atomic<const char*> outer_call_{nullptr};
  std::atomic<std::int64_t> outer_since_{0};
};

}  // namespace hymn::detail
