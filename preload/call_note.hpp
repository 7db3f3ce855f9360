// Counts one call of the program from its begin to its end.
#pragma once

#include "preload/session.hpp"
#include "recorder/stamp.hpp"

namespace hymn::preload {

class CallNote {
 public:
  HYMN_INLINE CallNote(Session& session, Call call)
      : counts_(session.counts()),
        count_(counts_.of(call)),
        began_(session.reports() ? processor_stamp() : 0) {
    counts_.add(count_.calls);
  }
  CallNote(const CallNote&) = delete;
  CallNote& operator=(const CallNote&) = delete;
  ~CallNote() {
    if (began_ == 0) return;
    const std::uint64_t passed = processor_stamp() - began_;
    counts_.add(count_.ticks, passed);
    if (!is_carried_) return;
    counts_.add(count_.carried_ticks, passed);
    counts_.add(count_.mpi_ticks,
                static_cast<std::uint64_t>(static_cast<double>(passed) / expected_ratio_));
  }

  /// Of a collective: who carries it; `expected_ratio`: as of policy.hpp.
  void end(Reason reason, std::size_t bytes, double expected_ratio = 1) {
    is_carried_ = reason == Reason::carried;
    expected_ratio_ = expected_ratio;
    counts_.add(count_.reasons[static_cast<std::size_t>(reason)]);
    counts_.add(count_.bytes, bytes);
  }

 private:
  Counts& counts_;
  CallCount& count_;
  std::uint64_t began_;
  double expected_ratio_ = 1;
  bool is_carried_ = false;
};

}  // namespace hymn::preload
