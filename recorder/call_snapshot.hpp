// What a rank shows of its collectives of one group to those that follow them: read in its memory,
// or told in a message.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "control/peer_news.hpp"
#include "recorder/call_facts.hpp"
#include "recorder/call_ring.hpp"
#include "recorder/recorder_layout.hpp"

namespace hymn {

/// A call as another rank has made it.
struct SeenCall : CallRecord {
  SeenCall(const CallRecord& record = {}, BlockCounts sizes = {})  // NOLINT: it is that record
      : CallRecord(record), counts(std::move(sizes)) {}
  BlockCounts counts;
  friend bool operator==(const SeenCall&, const SeenCall&) = default;
};

/// Elements of each buffer of one side of a coalesced call; empty where they were not kept.
std::vector<std::uint64_t> counts_of_buffers(const CallSide& side,
                                             const std::vector<std::uint64_t>& kept);
/// As of the record alone, and how a coalesced call is cut.
CallFacts facts_of(const SeenCall& call);
std::string describe(const SeenCall& call);

struct CallSnapshot {
  /// No more are shown at once; nor after the first more than have so many sizes of blocks.
  static constexpr std::size_t most_calls = 64;
  static constexpr std::size_t most_counts = 4096;

  bool is_recorded = false;     ///< it keeps records of its calls
  bool is_overwritten = false;  ///< the first one asked for is not there any more
  std::uint64_t joins = 0;      ///< as GroupLine
  std::uint64_t joined_at = 0;
  /// From the first one asked for on, without gaps, as far as they have been written: what makes a
  /// call the same on all ranks.
  std::vector<SeenCall> calls{};
  friend bool operator==(const CallSnapshot&, const CallSnapshot&) = default;
};

/// Reads the collectives from `sequence` on, and after them whether the rank has run out. Nothing
/// here waits or takes a lock; the rank may be writing.
CallSnapshot look_at_calls(const GroupLine& line, const CallRing& ring, std::uint64_t uid,
                           std::uint64_t sequence);

/// The collectives alone, also of a rank that has destroyed the group since.
CallSnapshot look_at_calls(const CallRing& ring, std::uint64_t uid, std::uint64_t sequence);

/// For a message.
CallProgress report_of(const CallSnapshot& snapshot);
/// Throws NetworkError for what no rank tells.
CallSnapshot snapshot_of(const CallProgress& report);

}  // namespace hymn
