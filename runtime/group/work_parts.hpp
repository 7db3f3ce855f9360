// The requests of a work, each with the operation that carries it out: one, or several of a batch.
// Coalesced collectives are one, the whole of them.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/group/gone_members.hpp"
#include "runtime/group/part_list.hpp"

namespace hymn::detail {

class GroupState;

/// Those of one work. What changes them once it has started is called under the work's step lock.
class WorkParts {
 public:
  explicit WorkParts(GroupState& group) : group_(group) {}

  /// One more, made of these arguments. Before start(); prepared by then.
  template <class... Arguments>
  WorkPart& emplace(Arguments&&... arguments) {
    return parts_.emplace(std::forward<Arguments>(arguments)...);
  }
  /// In which some of their buffers lie. It is let go of with them, or when the last mechanism has
  /// let go of one that was given up.
  void own(std::shared_ptr<const void> memory) { memory_ = std::move(memory); }
  /// Throws when one of them cannot start: then what has started is to be given up.
  void start();
  /// True when all have completed. Where can_park(), and nothing can be done, it may sleep for up
  /// to `nanoseconds`.
  bool step(long nanoseconds);
  /// Of one of them that has not completed; null while all may.
  std::exception_ptr hopeless();
  /// True when nothing of them is left behind.
  bool give_up(const std::string& reason);
  /// Those that were not started any more have failed, too.
  void fail_unstarted();

  const PartList& all() const { return parts_; }
  bool empty() const { return parts_.empty(); }
  std::size_t size() const { return parts_.size(); }
  /// Their data is in the memory of the host: they move in steps only. Fixed once they have
  /// started.
  bool are_on_host() const { return on_host_; }
  /// Whether peers wait for steps of one of them. Likewise.
  bool peers_need_steps() const;
  /// Only the last one parks: whoever slept in one would not move the others.
  bool can_park() const;
  /// Of all that have not completed.
  Awaited awaited() const;
  /// Whether all are on their stream, or have completed.
  bool are_enqueued() const;
  bool can_let_wait() const;
  void let_wait(void* stream);
  /// `op`, which is of the work, with the peers of those parts that have not completed.
  PendingOp pending(PendingOp op) const;
  /// Empty: there are none. What carries the first one.
  std::string_view path() const;
  std::string_view algorithm() const;
  /// As Operation::refusal(), of all, which have completed.
  std::exception_ptr refusal() const;
  /// What has been written.
  std::vector<BufferView> outputs() const;
  /// Of the receives, which have completed.
  std::vector<RecvStatus> statuses() const;

  // In their records.
  void show_waited_for(bool waited_for) const;
  void show_undriven(bool undriven) const;
  void show_retired() const;

 private:
  bool step_one(WorkPart& part, long nanoseconds);

  GroupState& group_;
  PartList parts_;
  std::size_t started_ = 0;
  std::atomic<std::size_t> completed_{0};
  bool on_host_ = true;
  std::shared_ptr<const void> memory_;
};

}  // namespace hymn::detail
