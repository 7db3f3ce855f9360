// The limit of a single call.
#pragma once

#include <hymn/hymn.h>

#include <chrono>

namespace hymn_torch {

/// Of what this thread starts during its life; none is given: the group's counts.
class CallLimit {
 public:
  CallLimit(std::chrono::milliseconds given, double of_group)
      : is_given_(given.count() > 0),
        seconds_(is_given_ ? std::chrono::duration<double>(given).count() : of_group) {
    if (is_given_) hymnThreadSetTimeout(seconds_);
  }
  CallLimit(const CallLimit&) = delete;
  CallLimit& operator=(const CallLimit&) = delete;
  ~CallLimit() {
    if (is_given_) hymnThreadSetTimeout(HYMN_TIMEOUT_DEFAULT);
  }

  double seconds() const { return seconds_; }

 private:
  bool is_given_;
  double seconds_;
};

}  // namespace hymn_torch
