// What stands behind a Work: one operation in flight, its deadline, and how it ended.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hymn/process_group.hpp"
#include "runtime/group/round_time.hpp"
#include "runtime/group/work_parts.hpp"
#include "runtime/group/work_waiters.hpp"

namespace hymn {
class WorksInFlight;
}

namespace hymn::detail {

/// The type and the number of what a work carries out.
struct WorkName {
  OpType type;
  std::uint64_t sequence;
  /// A batch in which all members take part, step for step: a later one would take what is left of
  /// one that has failed.
  bool is_joint = false;

  /// Those of a group end in the order in which they have started.
  bool is_ordered() const { return is_collective(type); }
  /// "all_reduce #41"
  std::string title() const;
};

/// Who waits for it is a WorkWait.
class WorkState {
 public:
  WorkState(std::shared_ptr<GroupState> group, Timeout limit, WorkName name);

  /// Starts all parts, which are there by then, and prepared. Throws, after giving up what has
  /// started, when one of them cannot start.
  void start();
  /// Before it is in flight: whether a message has come to its end already, as a small one that is
  /// sent, so that nothing of it need ever be.
  bool ends_at_once();
  /// From now on its limit counts, unless it does already.
  void begin_limit();
  /// One step; true when it has completed, successfully or not. Does nothing when another thread is
  /// at it. Where its parts can park, and nothing can be done, it may sleep for up to
  /// `nanoseconds`.
  bool step(long nanoseconds, RoundTime& time);
  bool step() {
    RoundTime time;
    return step(0, time);
  }
  bool is_completed() const {
    const Ended ended = ended_.load(std::memory_order_acquire);
    return ended == Ended::well || ended == Ended::badly;
  }
  /// Gives it up with an AbortedError, without a step. True: tell_all() is to follow, for it has
  /// ended and nobody knows yet.
  [[nodiscard]] bool abandon(const std::string& reason);
  /// The group was given up, and the application does not know yet: takes the last step, and fails
  /// it if that does not complete it. True as above.
  [[nodiscard]] bool end_given_up();
  /// Once it has ended: from now on everybody sees it. Returns who has kept it in flight.
  std::shared_ptr<WorkState> publish();
  /// Calls what was chained to it, which may look at this very work, or wait for any other: they
  /// have all been published that ended together. It may be gone when this returns but for who
  /// holds it.
  void call_back();

  std::exception_ptr error() const { return is_completed() ? error_ : nullptr; }
  std::vector<BufferView> result() const;
  std::vector<RecvStatus> statuses() const;
  Future<std::vector<BufferView>> future(const std::shared_ptr<WorkState>& self);

  /// Its own limit has passed by a little, and nobody waits, who would find that out.
  bool is_overdue(TimePoint now) const {
    return !is_completed() && !waiters_.there_are() && !deadline_.is_never() &&
           now >= deadline_.when() + std::chrono::milliseconds(500);
  }

  GroupState& group() const { return *group_; }
  WorkParts& parts() { return parts_; }
  const WorkParts& parts() const { return parts_; }
  WorkWaiters& waiters() { return waiters_; }
  const WorkName& name() const { return name_; }
  TimePoint started() const { return started_; }
  /// As ObservedCall::work; 0: nobody has seen its call.
  std::uint64_t observed_as() const { return observed_as_; }
  void observe_as(std::uint64_t number) { observed_as_ = number; }

 private:
  friend class hymn::WorksInFlight;
  friend class WorkWait;
  friend class WorksWait;
  /// `failed`: nobody hears of it before all that is in flight on a group given up has ended.
  enum class Ended : unsigned char { no, well, failed, badly };

  /// Under the step lock: true when it has ended now.
  bool advance(long nanoseconds, RoundTime& time);
  /// Takes a step: true when that has ended it, successfully or not.
  bool try_to_end(long nanoseconds);
  void fail(std::exception_ptr error);
  void fail_unless_ended(std::exception_ptr error);
  /// Without it the ranks of the group would be out of step.
  bool must_abort_group(bool clean) const;
  bool has_ended() const { return ended_.load(std::memory_order_acquire) != Ended::no; }
  bool is_untold() const { return ended_.load(std::memory_order_acquire) == Ended::failed; }
  /// All parts have completed.
  void finish_completed();
  void finish(Ended how, std::exception_ptr error, bool has_completed = false);
  /// After a step that has ended it, outside of its lock: where the group was given up all that is
  /// in flight on it ends with it.
  void conclude();
  void settle(FutureState<std::vector<BufferView>>& state) const;
  /// Throws its error, or that there is no `what` yet.
  void require_good_end(std::string_view what) const;

  std::shared_ptr<GroupState> group_;
  Timeout limit_;
  WorkName name_;
  TimePoint started_{};
  std::uint64_t observed_as_ = 0;
  Deadline deadline_ = Deadline::never();

  std::mutex step_mutex_;
  WorkParts parts_;
  WorkWaiters waiters_;
  std::atomic<Ended> ended_{Ended::no};
  std::exception_ptr error_;  // written before ended_
  std::exception_ptr early_error_;

  /// Among those in flight; theirs, and under their lock.
  std::optional<std::list<std::shared_ptr<WorkState>>::iterator> place_;

  std::mutex future_mutex_;
  std::shared_ptr<FutureState<std::vector<BufferView>>> future_;
};

/// As far as it matters who takes part in what has not completed of it.
PendingOp pending_of(const WorkState& work);
/// Publishes those that have ended, then calls back for each.
void tell_all(std::span<const std::shared_ptr<WorkState>> works);

}  // namespace hymn::detail
