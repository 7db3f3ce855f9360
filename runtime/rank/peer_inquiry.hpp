// What a rank asks the others about where they are, and how it tells of those who have not come.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "base/long_wait.hpp"
#include "hymn/process_group.hpp"
#include "recorder/group_registry.hpp"
#include "runtime/rank/peer_records.hpp"
#include "runtime/rank/wait_chain.hpp"

namespace hymn::detail {

class PeerInquiry {
 public:
  /// Of the thread that beats: who is there answers at once, unless the places in its program have
  /// to be looked up first.
  static constexpr int longest_answer = 6;  // beats

  PeerInquiry(const WorldSettings& settings, const Logger& logger, const GroupRegistry& registry,
              const PeerDirectory& peers, const PeerRecords& records)
      : settings_(settings),
        logger_(logger),
        registry_(registry),
        peers_(peers),
        records_(records) {}

  /// Where those ranks are in the group, as far as can be found out within `limit`.
  std::vector<ProgressReport> ask(const Inquiry& about, std::span<const int> ranks,
                                  Duration limit) const;
  /// What has been answered to a question of the agent's until now, and can be seen without.
  std::vector<ProgressReport> end_asking(std::uint64_t question, const Inquiry& about) const;
  /// Adds for whom those wait that are missing; asks for up to `patience`.
  void follow_waits(MissingRanks& missing, Duration waited, Duration patience) const;
  /// The same error of making a group, which names those who have not come, and what they do.
  TimeoutError with_missing(const TimeoutError& error, const Membership& group) const;
  /// Adds to what ranks do where in the program they do it. Those of other hosts have to be asked,
  /// for which it waits up to `limit`; if that is zero they are not.
  void find_sites(std::span<ProgressReport> reports, Inquiry about, Duration limit) const;
  /// From what a rank has recorded; `sites` as CallWords.
  void add_calls(ProgressReport& report, const RecorderView& view, const Inquiry& about,
                 const FrameSource* sites) const;
  /// What says in the log that waiting lasts for long; null where nothing is to be said.
  std::shared_ptr<LongWait> long_wait(const std::string& purpose) const;
  /// In the log: what has waited so long outside of calls, on the thread that waits, and for whom.
  void report_waiting(const std::string& purpose, std::vector<ProgressReport> missing,
                      Duration waited, bool quietly) const;

 private:
  void look_at_silent(std::vector<ProgressReport>& reports, const Inquiry& about) const;
  /// Of one that has left: what it had given up waiting for.
  void add_given_up(ProgressReport& report, const Inquiry& about, const RecorderView& view) const;
  /// "rank 1 (vm, pid 7) has not arrived: it has been in …; rank 2 …".
  std::string tell_absent(std::span<const ProgressReport> reports) const;
  /// What is told of a stopped process begins so.
  static constexpr std::string_view stopped_words = "its process is stopped; ";

  const WorldSettings& settings_;
  const Logger& logger_;
  const GroupRegistry& registry_;
  const PeerDirectory& peers_;
  const PeerRecords& records_;
};

}  // namespace hymn::detail
