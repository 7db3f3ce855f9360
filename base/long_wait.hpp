// What is said of a wait that lasts for long, before its limit.
#pragma once

#include <bit>
#include <functional>
#include <span>

#include "base/clock.hpp"

namespace hymn {

/// One wait, from when this is made; it is told of once, by the thread that waits, which calls
/// is_due() now and then. Not thread-safe.
class LongWait {
 public:
  /// Who has not come, as far as that is known. `quietly`: another rank says it, too.
  using Tell = std::function<void(std::span<const int> missing, Duration waited, bool quietly)>;
  /// `after`: none: it is never told of.
  LongWait(Timeout after, const Clock& clock, Tell tell)
      : since_(clock.now()), due_(Deadline::after(after, since_)), tell_(std::move(tell)) {}

  bool is_due(TimePoint now) const { return !told_ && due_.expired(now); }
  bool is_told() const { return told_; }
  void tell(std::span<const int> missing, TimePoint now, bool quietly) {
    told_ = true;
    tell_(missing, now - since_, quietly);
  }
  /// Whether a rank is one of the few that say what each of them sees: so some are left to say it,
  /// whichever of them are missing, and not all do. `index`: the rank's among those that wait.
  static bool is_speaker(std::size_t index) { return index == 0 || std::has_single_bit(index); }

 private:
  TimePoint since_;
  Deadline due_;
  Tell tell_;
  bool told_ = false;
};

}  // namespace hymn
