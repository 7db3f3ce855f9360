// What stands behind a ProcessGroup: its members, its candidates, its counts, and whether it can
// still be used.
#pragma once

#include <atomic>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "collectives/selector.hpp"
#include "hymn/process_group.hpp"

namespace hymn::detail {

class WorkState;
class WorldState;

class GroupState : public std::enable_shared_from_this<GroupState> {
 public:
  /// `selector` is null on a rank that is not a member. `blocks`: blocking calls without a limit
  /// are the mechanism's own blocking calls. They do not match the non-blocking ones of another
  /// rank, so this is settled among the members when the group is made, and never by what one rank
  /// alone sees.
  GroupState(std::shared_ptr<WorldState> world, Membership membership, GroupOptions options,
             std::unique_ptr<Selector> selector, bool blocks);
  ~GroupState();

  const Membership& membership() const { return membership_; }
  const std::string& description() const { return description_; }
  GroupShape shape() const { return shape_; }
  bool is_member() const { return shape_.rank >= 0; }
  WorldState& world() const { return *world_; }

  int global_rank(int group_rank) const;
  int group_rank(int global_rank) const;

  Timeout timeout() const { return timeout_.load(); }
  void set_timeout(Timeout timeout);
  std::uint64_t collective_sequence() const { return collectives_.load(std::memory_order_acquire); }
  std::uint64_t p2p_sequence() const { return p2ps_.load(std::memory_order_acquire); }

  RecvStatus run(const Request& request, const CallOptions& options);
  std::shared_ptr<WorkState> start(const Request& request, const CallOptions& options);
  std::shared_ptr<WorkState> start_batch(std::span<const P2POp> operations,
                                         const CallOptions& options);
  Explanation explain(const Request& request) const;

  /// Gives the group up: everything in flight and every later call fails with this reason; the
  /// first reason stays.
  void abort(const std::string& reason);
  bool is_aborted() const { return aborted_.load(std::memory_order_acquire); }
  std::string abort_reason() const;

  void destroy();
  bool is_destroyed() const { return destroyed_.load(std::memory_order_acquire); }

  // For works.
  /// The group as messages name it.
  std::string label() const;
  ErrorContext context(std::string operation) const;
  std::exception_ptr aborted_error(const std::string& operation) const;
  std::exception_ptr timeout_error(const std::string& title, Duration waited, Timeout limit,
                                   std::string_view consequence = "the group is given up") const;
  /// A failure as a reason: who, in what, what.
  std::string describe_failure(const std::exception_ptr& error, const std::string& title) const;
  RecvStatus to_global(RecvStatus status) const;
  /// Collectives complete in the order in which they started.
  bool is_next(const WorkState& work) const;
  void dequeue(const WorkState& work);

 private:
  /// False, with a warning, for a rank that is not a member.
  bool admit(OpType type);
  /// The request as it will be carried out, in `matched` where it differs from what was given.
  const Request& checked(const Request& request, std::unique_ptr<const Request>& matched,
                         int& peer) const;
  int peer_of(const Request& request) const;
  /// -1: it is not a member.
  int find_rank(int global_rank) const;
  Timeout limit_of(const CallOptions& options) const;

  // The number is looked at when an operation is prepared and taken when nothing can go wrong on
  // this rank any more: a refused call must not put the ranks out of step.
  std::uint64_t next_sequence(OpType type) const;
  void take_sequence(OpType type);
  void fill_record(std::uint64_t record_id, const Request& request, const Call& call);
  static std::string title(const Call& call);

  void prepare(OperationStorage& storage, const Call& call);
  void drive(Operation& operation, Timeout limit, const Call& call);
  /// In a catch block: gives up the operation, and the group where that must be, and throws on.
  [[noreturn]] void give_up(Operation& operation, const Call& call);

  void add_part(WorkState& work, const Request& request);
  void launch(const std::shared_ptr<WorkState>& work);
  void enqueue(const WorkState& work);
  /// True when everything in flight has completed.
  bool drain();

  std::shared_ptr<WorldState> world_;
  Membership membership_;
  std::string description_;
  GroupShape shape_;
  std::unique_ptr<Selector> selector_;
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
  std::string abort_reason_;
  std::deque<const WorkState*> ordered_;

  std::atomic<std::uint64_t> collectives_{0};
  std::atomic<std::uint64_t> p2ps_{0};
  std::atomic<bool> aborted_{false};
  std::atomic<bool> destroyed_{false};
};

}  // namespace hymn::detail
