// The time in one round of steps of what is in flight.
#pragma once

#include "base/clock.hpp"

namespace hymn::detail {

/// To read a clock costs as much as several steps: a round reads it once, for the first step that
/// asks; one that follows soon upon another need not at all.
class RoundTime {
 public:
  enum class Look : bool { no, yes };
  explicit RoundTime(Look look = Look::yes) : looks_(look == Look::yes) {}

  /// Whether limits are looked at in this round.
  bool looks() const { return looks_; }
  /// By that clock: those of different worlds need not be one.
  TimePoint now(const Clock& clock) {
    if (clock_ != &clock) now_ = clock.now();
    clock_ = &clock;
    return now_;
  }

 private:
  bool looks_;
  const Clock* clock_ = nullptr;
  TimePoint now_{};
};

}  // namespace hymn::detail
