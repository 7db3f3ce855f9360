// Whether a group can still be used: which members are gone, why it was given up, and the errors
// that say so.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/group/gone_members.hpp"
#include "runtime/group/group_agreement.hpp"
#include "runtime/group/group_members.hpp"
#include "runtime/group/group_record.hpp"
#include "runtime/group/world_context.hpp"
#include "runtime/rank/group_failure.hpp"

namespace hymn::detail {

/// Thread-safe.
class GroupHealth {
 public:
  GroupHealth(WorldContext& world, const GroupMembers& members, const GroupRecord& record,
              const GroupAgreement& agreement)
      : world_(world),
        members_(members),
        record_(record),
        agreement_(agreement),
        gone_(members.uid(), members.shape().rank, members.shape().size) {}

  /// Gives the group up on all ranks: everything in flight and every later call fails with this
  /// reason; the first reason stays.
  void abort(const GroupFailure& failure);
  /// The same on behalf of the application.
  void abort_for(const std::string& reason);
  /// The same because this rank shrinks it: says which members are known to have failed.
  void abort_to_shrink();
  /// Another rank has given it up.
  void abort_here(const GroupFailure& failure);
  /// This rank breaks off, and something is in flight: those who take part in it learn whose fault
  /// it is that it will not complete.
  void leave_because_of_failure();
  /// The same where this rank ends the group, and the collective `title` has not completed.
  void leave_before(const std::string& title);
  bool is_aborted() const { return health_.load(std::memory_order_acquire) == Health::aborted; }
  GroupFailure abort_failure() const;
  std::exception_ptr aborted_error(const std::string& operation) const;
  /// A send or receive went wrong and has left nothing behind: that is its own matter.
  void note_failed_message(const GroupFailure& failure) const;

  /// What has become of a member; of other ranks it is not interested.
  void member_changed(const PeerNews& news);
  /// Nothing has happened to the group or its members: no need to ask hopeless().
  bool is_sound() const { return health_.load(std::memory_order_acquire) == Health::sound; }
  bool has_failed_members() const { return !gone_.failed().empty(); }
  /// The members without whom the operation cannot complete.
  std::vector<PeerNews> missed_by(const PendingOp& op) const;
  /// Why such a call cannot even begin; null: no member is gone that it needs.
  std::optional<GroupFailure> find_lack(OpType type) const;
  /// The error of an operation that cannot complete for want of members that are gone, since the
  /// group is aborted, or since MPI has been finalized; null while it may. `step` is taken once
  /// more before that, and returns true when it has completed: what others did before may have come
  /// since the last step, if this thread lost its core.
  std::exception_ptr hopeless(const PendingOp& op, const std::function<bool()>& step) const;
  std::exception_ptr gone_error(const std::string& title, std::string_view what,
                                const std::vector<PeerNews>& gone) const;
  /// An operation through shared memory hears there, in words, that another member has given the
  /// group up. This waits a moment for the news of it, which tell whose fault it was. The group is
  /// aborted here, then, with or without them.
  std::exception_ptr explained(std::exception_ptr error, const std::string& title);
  /// A failure as a reason: who, in what, what.
  GroupFailure describe_failure(const std::exception_ptr& error, const std::string& title) const;

  /// Before a call takes back what it has begun, in a group that does not go on.
  void note_given_up() { has_given_up_.store(true, std::memory_order_seq_cst); }
  /// Whether what such a call completes with may have been meant for a receive before it, which was
  /// given up with the group.
  bool may_take_wrongly(OpType type) const {
    const bool takes = awaits_message(type) || type == OpType::batch;
    return takes && has_given_up_.load(std::memory_order_seq_cst);
  }
  /// A step of one operation of such a call, or where `nanoseconds` are given park(): true when it
  /// has completed, with what was meant for it. Throws what the operation does, but where that may
  /// have been another's: it is given up with the group.
  bool step(Operation& operation, OpType type, long nanoseconds) const;

  /// True for the first who asks: nobody may use the group from now on.
  bool begin_to_end() { return !destroyed_.exchange(true, std::memory_order_acq_rel); }
  bool is_destroyed() const { return destroyed_.load(std::memory_order_acquire); }
  /// Throws UsageError where it has been destroyed, or belongs to another process.
  void require_usable(const std::string& operation) const;

 private:
  void leave(const GroupFailure& failure);
  std::string describe_gone(const std::vector<PeerNews>& gone) const;
  GroupFailure failure_of(const std::vector<PeerNews>& gone) const;
  std::exception_ptr aborted_by(GroupFailure failure, const std::string& operation) const;
  /// Of what MPI has been finalized under.
  std::exception_ptr closed_error(const std::string& title) const;

  WorldContext& world_;
  const GroupMembers& members_;
  const GroupRecord& record_;
  const GroupAgreement& agreement_;
  /// Ordered: it never gets better, but for members that were only lost.
  enum class Health : unsigned char { sound, lost_member, aborted };
  std::atomic<Health> health_{Health::sound};
  std::atomic<bool> has_given_up_{false};  ///< calls, with the group
  std::atomic<bool> destroyed_{false};
  GoneMembers gone_;
  mutable std::mutex mutex_;  // guards what follows
  GroupFailure failure_;
};

}  // namespace hymn::detail
