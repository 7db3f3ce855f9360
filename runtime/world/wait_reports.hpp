// Which waits of this process have lasted so long that somebody should hear of it.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "hymn/timeout.hpp"
#include "recorder/call_record.hpp"

namespace hymn {

/// Thread-safe.
class WaitReports {
 public:
  /// `after`: none: no wait is ever long.
  explicit WaitReports(Timeout after) : after_(after) {}
  bool is_on() const { return !after_.is_none(); }

  /// To be told now and then of all calls that threads wait in. Those that have been among them for
  /// so long, each one once.
  std::vector<CallRecord> grown_long(std::span<const CallRecord> waited, TimePoint now);
  /// Whether this collective has been among them for half that time, so that it will be told.
  bool will_tell(std::uint64_t uid, std::uint64_t sequence) const;
  /// How long the call has been among them; nothing: it is not any more.
  std::optional<Duration> waited(const CallRecord& call) const;

 private:
  struct Wait {
    CallRecord call;
    TimePoint since;
    bool is_told = false;
  };
  Timeout after_;
  mutable std::mutex mutex_;  // guards what follows
  TimePoint now_{};
  std::map<std::uint64_t, Wait> waits_;  ///< by record
};

}  // namespace hymn
