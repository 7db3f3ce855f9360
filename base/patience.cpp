#include "base/patience.hpp"

#include <algorithm>
#include <iterator>

namespace hymn {

bool PatientWait::may_go_on(bool has_waited) {
  // On a busy machine it takes seconds until the waiter is sleepy.
  constexpr unsigned turns_between_polls = 256;
  const TimePoint now = patience_.clock->now();
  if (patience_.deadline.expired(now)) return false;
  const bool looks = has_waited || ++turn_ % turns_between_polls == 0;
  if (looks && patience_.is_hopeless) {
    std::copy_if(needed_.begin(), needed_.end(), std::back_inserter(hopeless_),
                 patience_.is_hopeless);
    if (!hopeless_.empty()) return false;
  }
  if (looks && patience_.long_wait) look_whether_long(now);
  if (patience_.meanwhile) patience_.meanwhile();
  if (patience_.watch) patience_.watch();
  return true;
}

void PatientWait::look_whether_long(TimePoint now) {
  LongWait& wait = *patience_.long_wait;
  if (!wait.is_due(now)) return;
  if (tell_long_) return tell_long_(now);
  // Of all who wait for each other here nobody knows who keeps the rest.
  const auto own = std::ranges::find(needed_, patience_.context.rank);
  const auto index = static_cast<std::size_t>(own - needed_.begin());
  wait.tell(needed_, now, own != needed_.end() && !LongWait::is_speaker(index));
}

}  // namespace hymn
