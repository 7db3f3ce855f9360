// What a world says by itself of calls that its threads wait in for long.
//
// This happens on the thread that beats, beside the threads that wait: their loops know nothing of
// it. What they wait in is told by the flight recorder.
#pragma once

#include <vector>

#include "runtime/world/known_groups.hpp"
#include "runtime/world/wait_reports.hpp"

namespace hymn::detail {

class LongWaits {
 public:
  LongWaits(WorldContext& world, const KnownGroups& groups)
      : world_(world), groups_(groups), reports_(world.settings.config.wait_report) {}

  /// By the thread that beats.
  void look();
  /// As WaitReports. Thread-safe.
  bool will_tell(std::uint64_t uid, std::uint64_t sequence) const {
    return reports_.will_tell(uid, sequence);
  }

 private:
  /// A wait that has lasted for long, while the others are asked about it.
  struct Asked {
    CallRecord call{};
    Inquiry about{};
    std::vector<int> ranks{};
    std::uint64_t question = 0;
    int beats = 0;  ///< since the others were asked
  };
  void ask_about(const CallRecord& call);
  void report(const Asked& wait, std::vector<ProgressReport> reports, Duration waited) const;

  WorldContext& world_;
  const KnownGroups& groups_;
  WaitReports reports_;
  std::vector<Asked> asked_;  // of the thread that beats, with what follows
  std::uint64_t calls_seen_ = 0;
  unsigned beats_ = 0;
};

/// Those that threads wait in, in the order in which they were made.
std::vector<CallRecord> waited_calls(const RecorderView& view);

}  // namespace hymn::detail
