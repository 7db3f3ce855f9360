// Moves the operations in flight forward, those of one world and of all others of this rank: on the
// thread that waits, and, if asked for, on a thread of its own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "base/oversubscription.hpp"
#include "collectives/operation.hpp"
#include "runtime/group/gone_members.hpp"
#include "runtime/group/round_time.hpp"
#include "runtime/group/works_in_flight.hpp"
#include "topology/cpu_set.hpp"

namespace hymn {

/// Of one world.
class ProgressEngine {
 public:
  /// `works` are all that are in flight on this rank. `may_drive` tells whether the calling thread
  /// may move those of this world. A thread of its own is bound to `own_cpus`.
  ProgressEngine(std::shared_ptr<WorksInFlight> works, std::function<bool()> may_drive,
                 bool oversubscribed, bool own_thread, CpuSet own_cpus);
  ~ProgressEngine();
  ProgressEngine(const ProgressEngine&) = delete;
  ProgressEngine& operator=(const ProgressEngine&) = delete;

  void add(std::shared_ptr<detail::WorkState> work);
  /// As WorksInFlight::remove().
  std::shared_ptr<detail::WorkState> remove(detail::WorkState& work);
  /// Keeps what an abandoned operation left until it is done.
  void keep(std::unique_ptr<AbandonedOperation> abandoned);

  /// Nothing is in flight, in no world of this rank.
  bool is_idle() const { return works_->is_idle(); }
  /// And no more.
  bool has_one() const { return works_->count() == 1 && works_->mail()->is_empty(); }
  /// Of this world.
  bool has_works() const { return own_count_.load(std::memory_order_acquire) != 0; }
  /// Nothing of this world is in flight, nor left behind by what was given up.
  bool is_drained();
  const std::shared_ptr<UnsentMail>& mail() const { return works_->mail(); }
  /// As WorksInFlight::step_some(): before it returns true the caller may give its core away, but
  /// not sleep.
  bool step_some(detail::RoundTime& time);
  bool step_some() {
    detail::RoundTime time;
    return step_some(time);
  }
  void step_all() { works_->step_all(); }
  /// Steps until nothing in flight has peers that wait for its steps: to be called before this
  /// thread blocks elsewhere.
  void finish_what_peers_need() {
    if (works_->needed_count() != 0) step_what_peers_need();
  }
  /// The works of this world in flight that satisfy `wanted`, oldest first.
  std::vector<std::shared_ptr<detail::WorkState>> pending(
      const std::function<bool(const detail::WorkState&)>& wanted) const;

  /// One of this world whose limit has passed, and for which nobody waits with another one.
  struct Overdue {
    std::uint64_t uid = 0;
    PendingOp op;
    bool on_host = false;  ///< and so are all that are older
  };
  /// Of each group of which one has become overdue since this was asked last the newest collective,
  /// and a message on a GPU.
  std::vector<Overdue> take_overdue(TimePoint now);
  /// They are told again.
  void tell_overdue_again(std::uint64_t uid);
  /// What is overdue still: a message itself, or the oldest collective of its group from `first`
  /// on.
  std::optional<Overdue> still_overdue(const Overdue& one, std::uint64_t first,
                                       TimePoint now) const;
  /// By the thread that beats.
  void look_what_is_driven(TimePoint now);
  /// This collective is in flight, and nothing has moved it on of late.
  bool is_undriven(std::uint64_t uid, std::uint64_t sequence) const;

  Oversubscription& oversubscription() { return oversubscription_; }
  bool oversubscribed() const { return oversubscription_.is_counted(); }
  bool has_own_thread() const { return has_own_thread_.load(std::memory_order_acquire); }
  /// Ends the own thread. What is still kept is handed over, for it must outlive the world.
  std::vector<std::unique_ptr<AbandonedOperation>> shut_down();

 private:
  void run_own_thread();
  /// What the own thread was to move forward is given up; from now on those who wait move it.
  void own_thread_failed(std::string_view why);
  void step_what_peers_need();
  void forget_done_abandoned();
  /// Calls `visit` with each work of this world, under the lock of all.
  template <class Visit>
  void for_each_own(Visit visit) const;

  std::shared_ptr<WorksInFlight> works_;
  std::function<bool()> may_drive_;
  Oversubscription oversubscription_;
  std::atomic<bool> has_own_thread_;
  CpuSet own_cpus_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<AbandonedOperation>> abandoned_operations_;
  std::atomic<std::size_t> own_count_{0};
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace hymn
