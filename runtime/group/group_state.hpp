// What stands behind a ProcessGroup: its parts, and its blocking calls.
#pragma once

#include <atomic>
#include <limits>
#include <memory>

#include "hymn/process_group.hpp"
#include "runtime/group/gpu_waits.hpp"
#include "runtime/group/group_agreement.hpp"
#include "runtime/group/group_buffers.hpp"
#include "runtime/group/group_checks.hpp"
#include "runtime/group/group_health.hpp"
#include "runtime/group/group_inquiry.hpp"
#include "runtime/group/group_means.hpp"
#include "runtime/group/group_members.hpp"
#include "runtime/group/group_record.hpp"
#include "runtime/group/group_watch.hpp"
#include "runtime/group/group_works.hpp"

namespace hymn::detail {

class BlockedCall;

/// A timeout that is read on every call and may be changed by another thread.
class AtomicTimeout {
 public:
  explicit AtomicTimeout(Timeout timeout) { store(timeout); }
  void store(Timeout timeout) {
    nanoseconds_.store(timeout.is_none() ? none : timeout.duration().count(),
                       std::memory_order_relaxed);
  }
  Timeout load() const {
    const std::int64_t stored = nanoseconds_.load(std::memory_order_relaxed);
    return stored == none ? Timeout::none() : Timeout(Duration(stored));
  }

 private:
  static constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
  std::atomic<std::int64_t> nanoseconds_{none};
};

/// What is known of a call before it is made.
struct ReadyCall {
  int peer = -1;                   ///< as Call::peer
  Algorithm* algorithm = nullptr;  ///< that carries it; null: nothing is known
  bool may_send_nan = false;       ///< what the user gave has been looked at
};

/// Where a call comes from that returns to `returns_to`, unless it says otherwise.
inline const void* site_of(const CallOptions& options, const void* returns_to) {
  if (options.site == CallSite::of_the_call) return returns_to;
  return reinterpret_cast<const void*>(static_cast<std::uintptr_t>(options.site));
}

// The parts that a blocking call touches are members, and not behind a pointer: it takes 0.2 us.
class GroupState : public std::enable_shared_from_this<GroupState> {
 public:
  GroupState(std::shared_ptr<WorldContext> world, Membership membership, GroupOptions options,
             GroupMeans means);
  ~GroupState();
  /// Null for a handle that is empty.
  static GroupState* of(const ProcessGroup& group) { return group.state_.get(); }

  WorldContext& world() const { return *world_; }
  const GroupOptions& options() const { return options_; }
  const GroupMembers& members() const { return members_; }
  const GroupMeans& means() const { return means_; }
  GroupRecord& record() { return record_; }
  const GroupRecord& record() const { return record_; }
  GroupWatch& watch() { return watch_; }
  const GroupWatch& watch() const { return watch_; }
  GroupAgreement& agreement() { return agreement_; }
  GroupHealth& health() { return health_; }
  const GroupHealth& health() const { return health_; }
  const GroupInquiry& inquiry() const { return inquiry_; }
  GroupBuffers& buffers() { return buffers_; }
  GroupWorks& works() { return works_; }

  Timeout timeout() const { return timeout_.load(); }
  void set_timeout(Timeout timeout);
  Timeout limit_of(const CallOptions& options) const;

  /// `site`: where the call returns to in the user's code. `ready`: of a request that was checked.
  RecvStatus run(const Request& request, const CallOptions& options, const void* site = nullptr,
                 const ReadyCall& ready = {});
  Explanation explain(const Request& request) const;

  void destroy();

 private:
  friend class MessageProbe;
  friend class PairCall;
  friend class PreparedState;
  friend class WorkStarter;

  struct Asked {
    const Request& request;
    const CallOptions& options;
    const void* site;
  };
  RecvStatus run_to_its_end(const Request& request, const CallOptions& options, const void* site,
                            const ReadyCall& ready);
  /// False, with a warning, for a rank that is not a member.
  bool admit(OpType type);
  /// Throws where the group takes no calls any more.
  void require_living(OpType type);
  /// Throws where members are gone without whom the call cannot be.
  void require_members(OpType type, const Asked* asked);
  /// The request as it will be carried out, in `matched` where it differs from what was given.
  const Request& checked(const Request& request, std::shared_ptr<const Request>& matched, int& peer,
                         ToItself to_itself = ToItself::refused) const;
  /// By `algorithm`, or where that is null by the one that is chosen now.
  Algorithm& prepare(OperationStorage& storage, const Call& call, Algorithm* algorithm = nullptr);
  /// Until it has completed. Returns whether that may have taken more than some microseconds.
  bool drive(Operation& operation, Timeout limit, const BlockedCall& call);
  /// In a catch block: gives up the operation, and the group where that must be. Returns the error
  /// to be thrown.
  std::exception_ptr given_up(Operation& operation, const PendingOp& op);

  std::shared_ptr<WorldContext> world_;
  GroupOptions options_;
  GroupMembers members_;
  GroupMeans means_;
  AtomicTimeout timeout_;
  GroupRecord record_;
  GroupWatch watch_;
  GroupAgreement agreement_;
  GroupHealth health_;
  GroupInquiry inquiry_;
  GpuWaits gpu_;
  GroupChecks checks_;
  GroupBuffers buffers_;
  GroupWorks works_{*this};
  std::atomic<bool> has_warned_poller_{false};  ///< a rank outside, which may ask for ever
};

/// What stands behind a ProcessGroup. Throws UsageError for an empty one.
GroupState& need(const std::shared_ptr<GroupState>& state);
GroupState& need(const ProcessGroup& group);

}  // namespace hymn::detail
