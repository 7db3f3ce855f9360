// Counts one call of the program from its begin to its end.
#pragma once

#include "preload/session.hpp"
#include "recorder/stamp.hpp"

namespace hymn::preload {

class CallNote {
 public:
  CallNote(Session& session, Call call)
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
    if (is_carried_) counts_.add(count_.carried_ticks, passed);
  }

  /// Of a collective: who carries it.
  void end(Reason reason, std::size_t bytes) {
    is_carried_ = reason == Reason::carried;
    counts_.add(count_.reasons[static_cast<std::size_t>(reason)]);
    counts_.add(count_.bytes, bytes);
  }

 private:
  Counts& counts_;
  CallCount& count_;
  std::uint64_t began_;
  bool is_carried_ = false;
};

}  // namespace hymn::preload
