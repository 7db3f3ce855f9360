// What stands behind a Work: one operation in flight, its deadline, and how it ended.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "collectives/algorithm.hpp"
#include "hymn/process_group.hpp"
#include "runtime/group/gone_members.hpp"

namespace hymn {
class WorksInFlight;
}

namespace hymn::detail {

class GroupState;

/// A request that owns its lists and counts, so that it can outlive the call that made it.
class OwnedRequest {
 public:
  explicit OwnedRequest(const Request& request);
  OwnedRequest(const OwnedRequest&) = delete;
  OwnedRequest& operator=(const OwnedRequest&) = delete;
  const Request& get() const { return request_; }

 private:
  std::vector<ConstBufferView> inputs_;
  std::vector<BufferView> outputs_;
  std::vector<std::size_t> input_counts_;
  std::vector<std::size_t> output_counts_;
  Request request_;
};

/// One request of a work with the operation that carries it out. A batch has several.
struct WorkPart {
  explicit WorkPart(const Request& given) : request(given) {}
  OwnedRequest request;
  Call call;
  Algorithm* algorithm = nullptr;
  OperationStorage storage;
  std::atomic<bool> done = false;  ///< others look at it while it is stepped
  std::uint64_t record_id = 0;
};

class WorkState {
 public:
  WorkState(std::shared_ptr<GroupState> group, Timeout limit, OpType type, std::uint64_t sequence);
  ~WorkState();

  /// Before start(): the parts, prepared.
  std::vector<std::unique_ptr<WorkPart>>& parts() { return parts_; }
  const std::vector<std::unique_ptr<WorkPart>>& parts() const { return parts_; }
  /// The parts are to be carried out as one, as far as the same algorithm carries them.
  void coalesce();
  TimePoint started() const { return started_; }
  /// Starts all parts. Throws, after giving up what has started, when one of them cannot start.
  void start();
  /// One step; true when it has completed, successfully or not. Does nothing when another thread is
  /// at it. Where can_park(), and nothing can be done, it may sleep for up to `nanoseconds`.
  bool step(long nanoseconds = 0);
  /// Only the last part parks: whoever slept in one would not move the others.
  bool can_park() const;
  /// Moves everything in flight forward, then is_completed().
  bool test();
  bool is_completed() const { return ended_.load(std::memory_order_acquire) != Ended::no; }
  /// Waits for at most `timeout`; unset: the operation's own limit. Throws as Work::wait says.
  void wait(Timeout timeout);
  /// Of one that is ordered by a stream: moves it on until all of it is on the stream, or it has
  /// ended. Throws its error.
  void await_enqueued();
  /// As Work::wait_on().
  void wait_on(void* stream);
  /// Gives it up with an AbortedError.
  void abandon(const std::string& reason);

  std::exception_ptr error() const;
  std::vector<BufferView> result() const;
  std::vector<RecvStatus> statuses() const;
  Future<std::vector<BufferView>> future(const std::shared_ptr<WorkState>& self);

  /// Its own limit has passed by a little, and nobody waits, who would find that out.
  bool is_overdue(TimePoint now) const {
    return !is_completed() && waiters_.load(std::memory_order_relaxed) == 0 &&
           !deadline_.is_never() && now >= deadline_.when() + std::chrono::milliseconds(500);
  }
  /// That it is overdue has been seen to. Forgotten when somebody has waited with another limit.
  bool is_seen_to() const { return is_seen_to_.load(std::memory_order_relaxed); }
  void set_seen_to(bool seen_to) { is_seen_to_.store(seen_to, std::memory_order_relaxed); }

  /// By the thread that beats: finds out whether anything has moved it on of late.
  void look_whether_driven(TimePoint now);
  /// Nothing has, as far as was looked.
  bool is_undriven() const {
    return !is_completed() && is_undriven_.load(std::memory_order_relaxed) &&
           waiters_.load(std::memory_order_relaxed) == 0;
  }
  /// Its data is in the memory of the host: it moves in steps only.
  bool is_on_host() const { return on_host_; }

  GroupState& group() const { return *group_; }
  OpType type() const { return type_; }
  std::uint64_t sequence() const { return sequence_; }
  /// Of its last part, where collectives were coalesced.
  std::uint64_t last_sequence() const {
    return is_ordered() && !parts_.empty() ? sequence_ + parts_.size() - 1 : sequence_;
  }
  bool is_ordered() const { return is_collective(type_); }
  PendingOp pending() const;
  /// Whether peers wait for steps of this one. Fixed once it has started.
  bool peers_need_steps() const;
  /// "all_reduce #41"
  std::string title() const;
  std::string_view path() const;
  std::string_view algorithm() const;

 private:
  friend class hymn::WorksInFlight;
  enum class Ended : unsigned char { no, well, badly };

  /// A thread has come to wait, or gone; the records tell whether there is one.
  void add_waiter();
  void remove_waiter();
  /// Throws where nobody would ever move it forward.
  void require_driver() const;
  /// Under the step lock: true when it has ended now.
  bool advance(long nanoseconds);
  /// Takes a step: true when that has ended it, successfully or not.
  bool try_to_end(long nanoseconds);
  /// True when all have completed.
  bool step_parts(long nanoseconds);
  bool step_part(WorkPart& part, long nanoseconds);
  /// Of all parts that have not completed; not known while another thread is at them.
  Awaited awaited();
  void fail(std::exception_ptr error);
  void fail_waiting(Duration waited, Timeout limit);
  /// Without it the ranks of the group would be out of step.
  bool must_abort_group(bool clean) const;
  void finish(Ended how, std::exception_ptr error);
  /// True when nothing of them is left behind.
  bool give_up_parts(const std::string& reason);
  /// Of one of its parts; null while all may complete.
  std::exception_ptr hopeless();
  /// Once it has ended, outside of its lock: what was chained to the result may look at this very
  /// work, which may be gone when this returns but for who holds it.
  void conclude();
  void settle_future();
  void settle(FutureState<std::vector<BufferView>>& state) const;
  bool is_enqueued() const;
  static ErrorContext merged_context(std::string remedy, ErrorContext context);

  std::shared_ptr<GroupState> group_;
  Timeout limit_;
  OpType type_;
  std::uint64_t sequence_;
  TimePoint started_{};
  Deadline deadline_ = Deadline::never();

  std::mutex step_mutex_;
  std::vector<std::unique_ptr<WorkPart>> parts_;
  std::vector<RecvStatus> statuses_;
  std::size_t started_parts_ = 0;
  bool on_host_ = true;  ///< fixed once it has started
  std::atomic<std::size_t> completed_parts_{0};
  // While somebody waits with a limit of their own, the operation's own is not looked at.
  std::atomic<int> explicit_waiters_{0};
  std::atomic<int> waiters_{0};  ///< all of them
  std::atomic<bool> is_seen_to_{false};
  std::atomic<std::uint32_t> steps_{0};  ///< written under the step lock
  std::uint32_t steps_seen_ = 0;         // these two by the thread that beats
  std::optional<TimePoint> moved_on_{};
  std::atomic<bool> is_undriven_{false};
  std::atomic<Ended> ended_{Ended::no};
  std::exception_ptr error_;  // written before ended_

  /// Among those in flight; theirs, and under their lock.
  std::optional<std::list<std::shared_ptr<WorkState>>::iterator> place_;

  std::mutex future_mutex_;
  std::shared_ptr<FutureState<std::vector<BufferView>>> future_;
};

}  // namespace hymn::detail
