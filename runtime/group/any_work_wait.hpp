// A thread that waits for the first of several works to complete.
#pragma once

#include <vector>

#include "runtime/group/work_state.hpp"

namespace hymn::detail {

/// By the thread that makes it.
class AnyWorkWait {
 public:
  /// One at least, and all of them until this has ended.
  AnyWorkWait(std::vector<WorkState*> works, Timeout timeout);
  ~AnyWorkWait();
  AnyWorkWait(const AnyWorkWait&) = delete;
  AnyWorkWait& operator=(const AnyWorkWait&) = delete;

  /// The first of them that has completed. Throws TimeoutError, as Work::wait(timeout) for the
  /// first of those that have not; UsageError where nobody would move them forward.
  WorkState& wait();

 private:
  WorkState* completed() const;
  /// Of all that have not completed only the first is asked about.
  [[noreturn]] void expire(Duration waited) const;

  const std::vector<WorkState*> works_;
  const Timeout timeout_;
};

}  // namespace hymn::detail
