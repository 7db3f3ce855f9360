// What a group counts and records of its calls, and the order in which they end.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>

#include "collectives/algorithm.hpp"
#include "hymn/process_group.hpp"
#include "recorder/call_ring.hpp"
#include "recorder/recorder_memory.hpp"

namespace hymn::detail {

class WorkState;

/// What is recorded of a call beside its request.
struct CallContext {
  const void* site = nullptr;  ///< where the call returns to in the user's code; null: not known
  Timeout limit{};
  std::uint64_t started = 0;     ///< a stamp, where starts are recorded and it starts at once
  bool in_background = false;    ///< the call returns while it is in flight
  std::size_t bundle_bytes = 0;  ///< where Call::in_own_bundles: how large these are
  bool may_send_nan = false;     ///< no NaN is looked for
};

/// Thread-safe, but that the callers of a group's collectives order them.
class GroupRecord {
 public:
  GroupRecord(std::uint64_t uid, CallRing& ring, GroupLineLease line)
      : uid_(uid), ring_(ring), line_(std::move(line)) {}

  /// What others may see of it.
  GroupLine& line() const { return *line_; }
  std::uint64_t collective_sequence() const {
    return line_->collectives.load(std::memory_order_acquire);
  }
  std::uint64_t p2p_sequence() const { return line_->p2ps.load(std::memory_order_acquire); }
  /// The last collective for which this rank has come to meet the others, before it was entered.
  std::uint64_t met() const { return line_->met.load(std::memory_order_acquire); }
  void show_timeout(Timeout timeout);
  /// For Join::shadow_all, once at a time. False: one has begun on this group, and not ended.
  bool begin_shadow() { return !in_shadow_.exchange(true, std::memory_order_acq_rel); }
  void end_shadow() { in_shadow_.store(false, std::memory_order_release); }

  // The number is looked at when an operation is prepared and taken when nothing can go wrong on
  // this rank any more: a refused call must not put the ranks out of step.
  std::uint64_t next_sequence(OpType type) const;
  std::uint64_t take_sequence(OpType type);
  /// The same for what `algorithm` is to carry.
  std::uint64_t take_sequence(OpType type, Algorithm& algorithm) {
    algorithm.count_use(type);
    return take_sequence(type);
  }

  /// What the next collective sends messages for: Call::order.
  std::uint64_t next_order() const {
    return collective_sequence() + 1 + extra_parts_.load(std::memory_order_relaxed);
  }
  /// The collective whose number was taken last is carried out in so many more parts than one.
  void add_parts(std::size_t more) { extra_parts_.fetch_add(more, std::memory_order_relaxed); }

  void fill(std::uint64_t record_id, const Request& request, const Call& call,
            const Algorithm* algorithm, const CallContext& note);
  /// For what does not even start, since members are gone: dumps tell of it. Its number.
  std::uint64_t add_refused(const Request& request, const void* site, Timeout limit);

  /// A blocking collective has completed.
  void note_completed(std::uint64_t sequence) {
    // With nothing in flight all that came before have completed, too.
    if (ordered_count_.load(std::memory_order_acquire) == 0) [[likely]]
      line_->completed.store(sequence, std::memory_order_release);
    else
      note_completed_early(sequence);
  }
  /// Collectives in flight complete in the order in which they started.
  void enqueue(const WorkState& work);
  bool is_next(const WorkState& work) const;
  void dequeue(const WorkState& work, bool well);

 private:
  void note_completed_early(std::uint64_t sequence);
  void store_completed();

  std::uint64_t uid_;
  CallRing& ring_;
  GroupLineLease line_;  // the counts are there
  std::atomic<bool> in_shadow_{false};
  std::atomic<std::uint64_t> extra_parts_{0};
  // Those in flight; stays above 0 when one has failed, for no later one completes the count.
  std::atomic<std::size_t> ordered_count_{0};
  mutable std::mutex mutex_;           // guards what follows
  std::deque<std::uint64_t> ordered_;  // sequence numbers of the works in flight
  std::uint64_t completed_early_ = 0;  // of the blocking ones, before what was in flight
  std::uint64_t completed_works_ = 0;
  bool one_has_failed_ = false;
};

}  // namespace hymn::detail
