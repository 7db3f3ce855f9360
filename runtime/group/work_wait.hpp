// A thread that waits for a work, or looks whether it has completed.
#pragma once

#include "runtime/group/group_state.hpp"
#include "runtime/group/work_state.hpp"

namespace hymn::detail {

/// By the thread that makes it.
class WorkWait {
 public:
  explicit WorkWait(WorkState& work) : work_(work), world_(work.group().world()) {}

  /// Moves everything in flight forward; whether the work has completed.
  bool test();
  /// Likewise; false: there is so much of it that some of it was left for the next time.
  bool move_on();
  /// Throws where nobody would ever move it forward.
  void require_driver() const;
  /// Waits for at most `timeout`; unset: the operation's own limit. Throws as Work::wait says.
  void wait(Timeout timeout);
  /// Of one that is ordered by a stream: moves it on until all of it is on the stream, or it has
  /// ended. Throws its error.
  void await_enqueued();
  /// As Work::wait_on().
  void wait_on(void* stream);

 private:
  /// Until it has completed, or that has passed; false: it has.
  bool wait_until(Deadline deadline);
  bool may_step() const { return world_.life.may_end_works(); }
  /// Of what has not completed; not known while another thread is at it.
  Awaited awaited() const;
  /// Its own limit has passed: throws that, or, with HYMN_BLOCKING_WAIT, by which it is the
  /// operation's, too, gives the work up with it.
  void expire(Duration waited, Timeout limit);

  WorkState& work_;
  WorldContext& world_;
};

}  // namespace hymn::detail
