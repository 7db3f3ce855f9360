#include "base/patience.hpp"

#include <algorithm>
#include <iterator>

namespace hymn {

bool PatientWait::may_go_on() {
  // On a busy machine it takes seconds until the waiter is sleepy.
  constexpr unsigned turns_between_looks = 256;
  if (patience_.deadline.expired(patience_.clock->now())) return false;
  const bool looks = waiter_.is_sleepy() || ++turn_ % turns_between_looks == 0;
  if (looks && patience_.is_hopeless) {
    std::copy_if(needed_.begin(), needed_.end(), std::back_inserter(hopeless_),
                 patience_.is_hopeless);
    if (!hopeless_.empty()) return false;
  }
  if (patience_.meanwhile) patience_.meanwhile();
  return true;
}

}  // namespace hymn
