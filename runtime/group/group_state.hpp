// What stands behind a ProcessGroup: its members, its candidates, its counts, and whether it can
// still be used.
#pragma once

#include <atomic>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "collectives/dispatch/locate.hpp"
#include "collectives/dispatch/selector.hpp"
#include "collectives/nccl/channel.hpp"
#include "hymn/process_group.hpp"
#include "recorder/call_snapshot.hpp"
#include "recorder/recorder_memory.hpp"
#include "runtime/group/completions.hpp"
#include "runtime/group/gone_members.hpp"
#include "runtime/rank/group_failure.hpp"
#include "runtime/rank/wait_chain.hpp"

namespace hymn {
struct CheckedCall;
struct Patience;
}  // namespace hymn

namespace hymn::detail {

class BufferRegistration;
class WorkState;
struct WorldContext;

/// What is recorded of a call beside its request.
struct CallContext {
  const void* site = nullptr;  ///< where the call returns to in the user's code; null: not known
  Timeout limit{};
  std::uint64_t started = 0;   ///< a stamp, where starts are recorded and it starts at once
  bool in_background = false;  ///< the call returns while it is in flight
};

/// What is asked of the calls of a group beyond carrying them out; a set of these.
struct Watch {
  static constexpr unsigned nan_check = 1;  ///< no NaN may be sent
  static constexpr unsigned info = 2;       ///< CheckLevel::info
  static constexpr unsigned detail = 4;     ///< CheckLevel::detail
  static constexpr unsigned metrics = 8;    ///< operations are counted
  static constexpr unsigned hooks = 16;     ///< somebody wants to know what has ended
};

/// A blocking call under watch.
struct WatchedCall {
  bool is_on = false;
  TimePoint entered{};
  TimePoint started{};
  std::string_view path{};  ///< that carries it
};

class GroupState : public std::enable_shared_from_this<GroupState> {
 public:
  /// What carries its requests out; empty on a rank that is not a member.
  struct Means {
    std::unique_ptr<Selector> selector{};
    DeviceReach reach{};
    std::shared_ptr<NcclChannel> nccl{};   ///< null: NCCL cannot be used
    std::shared_ptr<Exchange> exchange{};  ///< of the group alone; null: this rank is no member
  };
  /// `blocks`: blocking calls without a limit
  /// are the mechanism's own blocking calls. They do not match the non-blocking ones of another
  /// rank, so this is settled among the members when the group is made, and never by what one rank
  /// alone sees.
  GroupState(std::shared_ptr<WorldContext> world, Membership membership, GroupOptions options,
             Means means, bool blocks);
  ~GroupState();
  /// Null for a handle that is empty.
  static GroupState* of(const ProcessGroup& group) { return group.state_.get(); }
  /// Throws UsageError for one.
  static GroupState& need_of(const ProcessGroup& group);

  /// Of a group with these members, as `rank` sees it: -1 where it is none of them.
  static GroupShape shape_of(const Membership& membership, int rank);

  const Membership& membership() const { return membership_; }
  const GroupOptions& options() const { return options_; }
  const std::string& description() const { return description_; }
  GroupShape shape() const { return shape_; }
  bool is_member() const { return shape_.rank >= 0; }
  /// Communicators of NCCL that were split from this group's on this rank.
  std::uint64_t comm_splits() const { return means_.nccl ? means_.nccl->splits() : 0; }
  std::vector<AlgorithmUse> uses() const {
    return is_member() ? means_.selector->uses() : std::vector<AlgorithmUse>();
  }
  /// What its paths can do on GPUs.
  const DeviceReach& reach() const { return means_.reach; }
  /// Null: NCCL cannot be used.
  const std::shared_ptr<NcclChannel>& nccl() const { return means_.nccl; }
  /// Whether calls without a limit may be the mechanism's own blocking ones.
  bool blocks() const { return blocks_; }
  WorldContext& world() const { return *world_; }

  int global_rank(int group_rank) const;
  int group_rank(int global_rank) const;

  Timeout timeout() const { return timeout_.load(); }
  void set_timeout(Timeout timeout);
  std::uint64_t collective_sequence() const {
    return line_->collectives.load(std::memory_order_acquire);
  }
  std::uint64_t p2p_sequence() const { return line_->p2ps.load(std::memory_order_acquire); }

  /// What others may see of it.
  GroupLine& line() const { return *line_; }

  /// `site`: where the call returns to in the user's code.
  RecvStatus run(const Request& request, const CallOptions& options, const void* site = nullptr);
  std::shared_ptr<WorkState> start(const Request& request, const CallOptions& options,
                                   const void* site = nullptr);
  std::shared_ptr<WorkState> start_batch(std::span<const P2POp> operations,
                                         const CallOptions& options, const void* site = nullptr);
  std::shared_ptr<WorkState> start_coalesced(std::span<const Request> requests,
                                             const CallOptions& options,
                                             const void* site = nullptr);
  Explanation explain(const Request& request) const;
  // As ProcessGroup's; in group_buffers.cpp.
  std::unique_ptr<BufferRegistration> register_buffer(void* data, std::size_t bytes,
                                                      Registration how, const CallOptions& options);
  std::unique_ptr<BufferRegistration> allocate_registered(std::size_t bytes, Registration how,
                                                          const CallOptions& options);
  /// Throws where this rank's GPU cannot order anything by this stream.
  void require_stream(void* stream, const std::string& operation) const;

  /// Gives the group up on all ranks: everything in flight and every later call fails with this
  /// reason; the first reason stays.
  void abort(const GroupFailure& failure);
  /// The same on behalf of the application.
  void abort_for(const std::string& reason);
  /// The same because this rank shrinks it: says which members are known to have failed.
  void abort_to_shrink();
  /// Another rank has given it up.
  void abort_here(const GroupFailure& failure);
  bool is_aborted() const { return health_.load(std::memory_order_acquire) == Health::aborted; }
  GroupFailure abort_failure() const;

  /// A send or receive went wrong and has left nothing behind: that is its own matter.
  void note_failed_message(const GroupFailure& failure) const;
  /// What has become of a member; of other ranks it is not interested.
  void member_changed(const PeerNews& news);
  /// Nothing has happened to the group or its members: no need to ask hopeless().
  bool is_sound() const { return health_.load(std::memory_order_acquire) == Health::sound; }
  /// The error of an operation that cannot complete for want of members that are gone, since the
  /// group is aborted, or since MPI has been finalized; null while it may. `step` is taken once
  /// more before that, and returns true when it has completed: what others did before may have come
  /// since the last step, if this thread lost its core.
  std::exception_ptr hopeless(const PendingOp& op, const std::function<bool()>& step) const;
  /// Before a call takes back what it has begun, in a group that does not go on.
  void note_given_up() { has_given_up_.store(true, std::memory_order_seq_cst); }
  /// Whether what such a call completes with may have been meant for a receive before it, which was
  /// given up with the group.
  bool may_take_wrongly(OpType type) const {
    return type == OpType::recv && has_given_up_.load(std::memory_order_seq_cst);
  }
  bool has_failed_members() const { return !gone_.failed().empty(); }

  // --- In group_watch.cpp and group_checks.cpp
  void on_completion(CompletionHook hook);
  void wait_for_pending_works(Timeout timeout);
  void end_hooks();
  /// Whether any of Watch is asked for: all that calls ask themselves where nothing is.
  bool is_watched() const { return watch_.load(std::memory_order_relaxed) != 0; }
  /// Of a work that is about to end; possibly under locks.
  void note_ended(const WorkState& work, const std::exception_ptr& error);
  /// To be called outside of locks where note_ended() was called.
  void tell_ended() {
    if (is_watched()) [[unlikely]]
      tell_hooks();
  }
  /// A thread was blocked in waiting for this work.
  void note_waited(const WorkState& work, Duration waited);
  /// The last collective for which this rank has come to meet the others, before it was entered.
  std::uint64_t met() const { return line_->met.load(std::memory_order_acquire); }
  /// The one for which it does so now; 0: none.
  std::uint64_t meeting() const {
    const std::uint64_t last = met();
    return last > collective_sequence() && !is_aborted() ? last : 0;
  }

  /// For Join::shadow_all, once at a time. False: one has begun on this group, and not ended.
  bool begin_shadow() { return !in_shadow_.exchange(true, std::memory_order_acq_rel); }
  void end_shadow() { in_shadow_.store(false, std::memory_order_release); }

  void destroy();
  bool is_destroyed() const { return destroyed_.load(std::memory_order_acquire); }

  // For works.
  /// The group as messages name it.
  std::string label() const;
  ErrorContext context(std::string operation) const;
  std::exception_ptr aborted_error(const std::string& operation) const;
  std::exception_ptr aborted_by(GroupFailure failure, const std::string& operation) const;
  /// Of what MPI has been finalized under.
  std::exception_ptr closed_error(const std::string& title) const;
  /// For a call of this rank that has lasted for long: whom to ask about it, and what; then, with
  /// what they have told, who is missing and where. Does not wait.
  std::pair<Inquiry, std::vector<int>> whom_to_ask(const PendingOp& op) const;
  MissingRanks missing_of(const PendingOp& op, std::vector<ProgressReport> reports) const {
    return find_missing(op, std::move(reports), Duration::zero());
  }
  PendingOp pending_in(const CallRecord& call) const;
  std::string wait_report(const CallRecord& call, std::vector<ProgressReport> reports,
                          Duration waited) const;
  /// Asks the others who is missing. `gives_up`: the operation's own limit has passed; otherwise
  /// only somebody's patience.
  std::exception_ptr timeout_error(const PendingOp& op, Duration waited, Timeout limit,
                                   bool gives_up = true) const;
  /// An operation through shared memory hears there, in words, that another member has given the
  /// group up. This waits a moment for the news of it, which tell whose fault it was.
  std::exception_ptr explained(std::exception_ptr error, const std::string& title) const;
  /// Of a collective that began at `began` and has not completed: the error where what members have
  /// called is seen to differ; null where not, and mostly without a look.
  std::exception_ptr look_for_other_calls(TimePoint began, TimePoint now);
  /// A failure as a reason: who, in what, what.
  GroupFailure describe_failure(const std::exception_ptr& error, const std::string& title) const;
  RecvStatus to_global(RecvStatus status) const;
  /// Collectives complete in the order in which they started.
  bool is_next(const WorkState& work) const;
  void dequeue(const WorkState& work, bool well);

 private:
  /// False, with a warning, for a rank that is not a member.
  struct Asked {
    const Request& request;
    const CallOptions& options;
    const void* site;
  };
  bool admit(OpType type);
  /// Throws where members are gone without whom the call cannot be.
  void require_members(OpType type, const Asked* asked);
  /// The request as it will be carried out, in `matched` where it differs from what was given.
  const Request& checked(const Request& request, std::shared_ptr<const Request>& matched,
                         int& peer) const;
  static Request ordered_by(const Request& request, const CallOptions& options);
  int peer_of(const Request& request) const;
  void show_timeout();
  /// -1: it is not a member.
  int find_rank(int global_rank) const;
  Timeout limit_of(const CallOptions& options) const;

  // The number is looked at when an operation is prepared and taken when nothing can go wrong on
  // this rank any more: a refused call must not put the ranks out of step.
  std::uint64_t next_sequence(OpType type) const;
  std::uint64_t take_sequence(OpType type);
  /// The same for what `algorithm` is to carry.
  std::uint64_t take_sequence(OpType type, Algorithm& algorithm) {
    algorithm.count_use(type);
    return take_sequence(type);
  }
  void fill_record(std::uint64_t record_id, const Request& request, const Call& call,
                   const Algorithm* algorithm, const CallContext& note);
  /// For what does not even start, since members are gone: dumps tell of it. Its number.
  std::uint64_t record_refused(const Asked& asked);
  /// A blocking collective has completed.
  void note_completed(std::uint64_t sequence) {
    // With nothing in flight all that came before have completed, too.
    if (ordered_count_.load(std::memory_order_acquire) == 0) [[likely]]
      line_->completed.store(sequence, std::memory_order_release);
    else
      note_completed_early(sequence);
  }
  void note_completed_early(std::uint64_t sequence);
  void store_completed();
  static std::string title(const Call& call);
  static std::string title(const PendingOp& op);
  static PendingOp pending(const Call& call) {
    return {call.request->type, call.sequence, call.peer};
  }
  std::string describe_gone(const std::vector<PeerNews>& gone) const;
  GroupFailure failure_of(const std::vector<PeerNews>& gone) const;
  std::exception_ptr gone_error(const std::string& title, std::string_view what,
                                const std::vector<PeerNews>& gone) const;

  // In group_inquiry.cpp.
  /// Who has not come, from what ranks have told, and what a closer look gives within `patience`.
  MissingRanks find_missing(const PendingOp& op, std::vector<ProgressReport> reports,
                            Duration patience) const;
  std::string remedy_for(const MissingRanks& missing) const;
  /// Where the calls of other members differ from this rank's, as the records tell: "rank 1 calls
  /// barrier (at solver.cpp:88)". Empty: nothing is known of that. Asks those of other hosts for up
  /// to `patience`.
  std::string tell_apart(const PendingOp& op, std::vector<ProgressReport> reports,
                         Duration patience) const;
  /// "this rank calls …"; empty where it is not recorded.
  std::string tell_own(const PendingOp& op) const;
  std::optional<CallRecord> own_call(const PendingOp& op) const;
  /// The ranks without whom it does not end.
  std::vector<int> awaited_in(const PendingOp& op) const;
  Inquiry inquiry_about(const PendingOp& op) const;
  /// How long a thread has waited in it without a break.
  Duration time_in_wait(const PendingOp& op, Duration in_flight) const;

  Algorithm& prepare(OperationStorage& storage, const Call& call);
  /// Until it has completed. Returns whether that may have taken more than some microseconds.
  bool drive(Operation& operation, Timeout limit, const Call& call);
  /// In a catch block: gives up the operation, and the group where that must be, and throws on.
  [[noreturn]] void give_up(Operation& operation, const Call& call, const WatchedCall& watched);

  // In group_buffers.cpp.
  std::unique_ptr<BufferRegistration> new_registration(Registration how);
  void require_on_gpu(const void* data, std::size_t bytes) const;
  void make_known(BufferRegistration& registration, Timeout limit);
  /// Until `use` could be called alone in NCCL.
  void await_nccl(const std::function<void()>& use, Timeout limit);

  // In group_watch.cpp.
  unsigned watch_from(const GroupOptions& options) const;
  bool watches(unsigned what) const { return (watch_.load(std::memory_order_relaxed) & what) != 0; }
  void note_ended(const Call& call, const WatchedCall& watched, const std::exception_ptr& error);
  void tell_hooks();

  // In group_checks.cpp: what the checks ask of a call that nothing else is wrong with, before its
  // number is taken.
  WatchedCall examine(const Call& call, const Algorithm& algorithm, const CallContext& note);
  void examine_part(const Call& call, const CallContext& note);
  void require_numbers(const Call& call, Timeout limit);
  // In group_gpu.cpp.
  /// Moves what is in flight in this process until `is_done`; `look` is called before each turn,
  /// and throws where waiting is of no use. How long it has waited in vain, or nothing.
  std::optional<Duration> await(const std::function<bool()>& is_done, Timeout limit,
                                const std::function<void()>& look);
  void await_gpu(const Call& call, Timeout limit, const char* what,
                 const std::function<bool()>& is_done);
  void await_ready(Operation& operation, const Call& call, Timeout limit);
  std::size_t find_nan_on_gpu(const Call& call, const ConstBufferView& view, Timeout limit);
  void compare(const Call& call, const CallContext& note);
  void announce(const Call& call);
  [[noreturn]] void refuse_apart(const Call& call, const CallContext& note,
                                 const Patience& patience, const CheckedCall& mine,
                                 const std::string& misfit);
  /// From what the meeting has found out: who has not come, and what they do instead.
  std::exception_ptr missed_error(const PendingOp& op, const TimeoutError& error) const;
  [[noreturn]] void give_up_meeting(const PendingOp& op, const TimeoutError& error, Timeout limit);

  // In group_agreement.cpp.
  struct MembersCalls {
    int rank;
    CallSnapshot snapshot;
  };
  CallSnapshot latest_calls(const CallRing& ring) const;
  /// Of those whose records can be read: this rank, and others of this host.
  std::vector<MembersCalls> calls_of_all() const;
  /// The first of these that members have made otherwise, in words; empty: there is none.
  std::string tell_apart(std::span<const MembersCalls> all) const;
  /// Who calls what, and where.
  std::string tell_calls_of(std::span<const MembersCalls> all, std::uint64_t sequence) const;
  static std::exception_ptr apart_error(const std::string& told);
  /// What an algorithm has met, with the calls of both sides, where these can be read.
  std::exception_ptr named(const std::exception_ptr& other_call) const;
  void announce_latest();

  /// All requests as one work; none of them has started when one is refused.
  std::shared_ptr<WorkState> start_together(OpType type, std::span<const Request> requests,
                                            const CallOptions& options, const void* site);
  void add_part(WorkState& work, const Request& request);
  /// After all parts of the work were added; `asked` as in require_members().
  void prepare_parts(WorkState& work, const Asked* asked);
  void launch(const std::shared_ptr<WorkState>& work, const CallContext& note);
  void enqueue(const WorkState& work);
  /// Those who take part in what is in flight learn whose fault it is that it will not complete.
  void leave_because_of_failure();
  /// True when everything in flight has completed.
  bool drain();

  std::shared_ptr<WorldContext> world_;
  Membership membership_;
  GroupOptions options_;
  std::string description_;
  GroupShape shape_;
  Means means_;
  bool blocks_;

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
  AtomicTimeout timeout_;

  mutable std::mutex mutex_;  // guards what follows up to the counts
  GroupFailure failure_;
  std::set<std::uint64_t> ordered_;    // sequence numbers of the works in flight
  std::uint64_t completed_early_ = 0;  // of the blocking ones, before what was in flight
  std::uint64_t completed_works_ = 0;
  bool one_has_failed_ = false;

  // Those in flight; stays above 0 when one has failed, for no later one completes the count.
  std::atomic<std::size_t> ordered_count_{0};
  GroupLineLease line_;  // the counts are there
  /// Ordered: it never gets better, but for members that were only lost.
  enum class Health : unsigned char { sound, lost_member, aborted };
  std::atomic<Health> health_{Health::sound};
  GoneMembers gone_;
  std::atomic<unsigned> watch_;
  Completions completions_;
  std::atomic<std::int64_t> next_look_{0};  // for other calls, of the world's clock
  std::atomic<std::uint64_t> announced_{
      0};  // the latest collective that the coordinator has been told
  std::atomic<bool> destroyed_{false};
  std::atomic<bool> has_given_up_{false};  ///< calls, with the group
  std::atomic<bool> in_shadow_{false};
};

/// What stands behind a ProcessGroup. Throws UsageError for an empty one.
GroupState& need(const std::shared_ptr<GroupState>& state);

}  // namespace hymn::detail
