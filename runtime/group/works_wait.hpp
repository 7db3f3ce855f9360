// A thread that waits for several works: for all, or for the first to complete.
#pragma once

#include <vector>

#include "runtime/group/work_state.hpp"

namespace hymn::detail {

/// By the thread that makes it.
class WorksWait {
 public:
  enum class For : unsigned char { all, any };
  /// All of them until this has ended. With a limit that of none of them is looked at meanwhile.
  WorksWait(std::vector<WorkState*> works, Timeout timeout, For waits_for);
  ~WorksWait();
  WorksWait(const WorksWait&) = delete;
  WorksWait& operator=(const WorksWait&) = delete;

  /// Throws as wait_all() says.
  void all();
  /// The first of them that has completed; there is one at least. Throws TimeoutError, as
  /// Work::wait(timeout) for the first of those that have not; UsageError where nobody would move
  /// one of them forward.
  WorkState& any();

 private:
  WorkState* completed() const;
  /// Moves on what is in flight in all their worlds; false: it has not come to all of it yet.
  bool move_on() const;
  /// Of all that have not completed only the first is asked about.
  [[noreturn]] void expire(Duration waited) const;

  const std::vector<WorkState*> works_;
  std::vector<WorkState*> one_of_each_world_;
  const Timeout timeout_;
  const bool needs_all_;
  const TimePoint began_;
};

}  // namespace hymn::detail
