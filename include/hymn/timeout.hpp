// How long to wait, and until when.
#pragma once

#include "hymn/standard.hpp"  // first

#include "hymn/standard_parts.hpp"

namespace hymn {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::steady_clock::time_point;

/// How long an operation may take: a duration, "none" (for ever), or unset (the next default up:
/// call, then group, then world, then HYMN_TIMEOUT). A duration of zero or less has expired at
/// once.
class Timeout {
 public:
  constexpr Timeout() = default;  // unset
  template <class Rep, class Period>
  constexpr Timeout(std::chrono::duration<Rep, Period> duration)  // NOLINT: reads as a duration
      : kind_(Kind::limited), duration_(std::chrono::duration_cast<Duration>(duration)) {}

  /// Wait for ever, as plain MPI does.
  static constexpr Timeout none() {
    Timeout timeout;
    timeout.kind_ = Kind::none;
    return timeout;
  }

  constexpr bool is_set() const { return kind_ != Kind::unset; }
  constexpr bool is_none() const { return kind_ == Kind::none; }
  /// Meaningful only when set and not none.
  constexpr Duration duration() const { return duration_; }
  constexpr Timeout or_else(Timeout fallback) const { return is_set() ? *this : fallback; }

  friend constexpr bool operator==(const Timeout&, const Timeout&) = default;

 private:
  enum class Kind : unsigned char { unset, none, limited };
  Kind kind_ = Kind::unset;
  Duration duration_{0};
};

/// A point in time after which waiting ends, or never.
class Deadline {
 public:
  static constexpr Deadline never() { return Deadline(); }
  constexpr explicit Deadline(TimePoint when) : when_(when) {}
  static Deadline after(Duration duration, TimePoint now = std::chrono::steady_clock::now()) {
    // A very long duration must not wrap into the past.
    if (duration > TimePoint::max() - now) return never();
    return Deadline(now + duration);
  }
  static Deadline after(Timeout timeout, TimePoint now = std::chrono::steady_clock::now()) {
    if (!timeout.is_set() || timeout.is_none()) return never();
    return after(timeout.duration(), now);
  }

  constexpr bool is_never() const { return when_ == TimePoint::max(); }
  constexpr bool expired(TimePoint now) const { return !is_never() && now >= when_; }
  constexpr TimePoint when() const { return when_; }

 private:
  constexpr Deadline() = default;
  TimePoint when_ = TimePoint::max();
};

}  // namespace hymn
