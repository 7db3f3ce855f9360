// What a rank has called, in words, as its recorder's memory tells it. All this is of memory that a
// rank on this host writes, or has written.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "control/peer_news.hpp"
#include "recorder/call_frames.hpp"
#include "recorder/recorder_view.hpp"

namespace hymn {

/// "all_reduce of 1000 float32 with sum", "send of 8 int32 to rank 3 with tag 5",
/// "recv of 8 int32 from any rank with tag 5"
std::string describe_call(const CallRecord& call);

/// The collective with this number of the group, or, if `p2p`, the send or receive. Empty: it has
/// not been called there, is not kept any more, or nothing is recorded.
std::optional<CallRecord> find_call(const RecorderView& view, std::uint64_t uid,
                                    std::uint64_t sequence, bool p2p = false);

/// Those that have not ended, among the last thousand, in the order in which they were made.
std::vector<CallRecord> open_calls(const RecorderView& view);

/// The last call that a thread of the rank waits in, or else its last one if it has just failed.
/// Empty: it waits in none.
std::optional<CallRecord> unended_call(const RecorderView& view);
/// The newest call that was started long enough ago, and is moved on though no thread waits in it.
std::optional<CallRecord> tested_call(const RecorderView& view);
/// Its last call was made after the first `calls` ones, and has completed.
bool has_gone_on_after(const RecorderView& view, std::uint64_t calls);
/// The group that the rank is making, or has just given up. Empty: none; also where it shrinks one.
std::optional<RecorderView::Making> unended_making(const RecorderView& view);
/// Whether it makes this group, or has just given that up, whatever it has begun since.
bool is_making(const RecorderView& view, std::uint64_t uid);
/// Whom a rank needs that waits in this call of its.
OwnWait awaited_in(const RecorderView& view, const CallRecord& call);
/// The same of a group that it is making.
OwnWait awaited_in(const RecorderView& view, const RecorderView::Making& making);

/// For addresses in the records of another process. `pid`: as it is seen here; 0: it has ended, or
/// cannot be seen.
FrameSource source_of(const RecorderView& view, int pid);

/// How calls are told.
struct CallWords {
  std::function<std::string(std::uint64_t uid)> label;  ///< of a group
  /// Whose addresses call sites are; null: they are not told. To look them up may take tens of
  /// milliseconds.
  const FrameSource* sites = nullptr;
};

/// What it has done last: "it has been in all_reduce #7 of group 'dp#1' at solver.cpp:88 for 3.0
/// s", "it has been in send #7 of 8 int32 to rank 3 with tag 5, group 'dp#1', for 3.0 s", "it
/// started all_reduce #7 of group 'dp#1' 3.0 s ago, and is not waiting in any call", "its last
/// call, barrier #3 of group 'dp#1', completed 12.0 s ago"; before that "it has been making group 5
/// of ranks 0-2 for 3.0 s", where it is.
std::string describe_last_call(const RecorderView& view, const CallWords& words);

}  // namespace hymn
