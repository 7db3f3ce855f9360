// What is in flight on one rank, in all of its worlds: whoever waits in one of them moves what is
// in flight in the others, too, for which other ranks may wait first.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "base/unsent_mail.hpp"

namespace hymn {

namespace detail {
class RoundTime;
class WorkState;
}  // namespace detail

/// Thread-safe.
class WorksInFlight {
 public:
  using Works = std::list<std::shared_ptr<detail::WorkState>>;

  /// Of the rank that this process is.
  static std::shared_ptr<WorksInFlight> of_process();
  /// Of the rank that the calling thread is, where ranks are threads: of the worlds that it makes.
  static std::shared_ptr<WorksInFlight> of_thread();
  /// For who does not know yet which of the two it belongs to.
  static void step_all_here();

  WorksInFlight() = default;
  WorksInFlight(const WorksInFlight&) = delete;
  WorksInFlight& operator=(const WorksInFlight&) = delete;

  void add(std::shared_ptr<detail::WorkState> work);
  /// One that has ended; null: it was not there. What is returned may be the last to hold it, and
  /// its group: it must end outside of all locks.
  std::shared_ptr<detail::WorkState> remove(detail::WorkState& work);

  std::size_t count() const { return count_.load(std::memory_order_acquire); }
  /// What was said needs no further calls, either.
  bool is_idle() const { return count() == 0 && mail_->is_empty(); }
  const std::shared_ptr<UnsentMail>& mail() const { return mail_; }
  /// Of those, whose peers wait for steps of theirs.
  std::size_t needed_count() const { return needed_count_.load(std::memory_order_acquire); }

  /// One step for some of those that the calling thread may move, in turn, so that whoever waits
  /// for one of very many soon looks at that one again: for few where the round looks at no limits.
  /// (Now and then it does so all the same, however short the waits are in which it is called.)
  /// True when all have had their turn. Never throws: failures go to the works themselves.
  bool step_some(detail::RoundTime& time);
  /// One step for all, and for the mail.
  void step_all();

  /// Calls `visit` with each, the oldest first, under the lock, so that no work ends on the thread
  /// that asks: see remove().
  template <class Visit>
  void for_each(Visit visit) const {
    const std::lock_guard lock(mutex_);
    for (const auto& work : works_) visit(work);
  }

 private:
  static constexpr std::size_t most_spare = 64;
  /// Up to `most` of those turn it is; half of them rather those that can end next.
  template <std::size_t most>
  bool step_turns(bool from_next_to_end, detail::RoundTime& time);

  const std::shared_ptr<UnsentMail> mail_ = std::make_shared<UnsentMail>();
  mutable std::mutex mutex_;
  Works works_;                          // the oldest first
  Works spare_;                          // empty places, so that few are made anew
  Works::iterator turn_ = works_.end();  // whose it is
  // Behind the one that was last to end. Collectives end in the order of their start, so that of
  // very many most cannot end yet: what is here can.
  Works::iterator next_to_end_ = works_.end();
  std::atomic<std::size_t> count_{0};
  std::atomic<std::size_t> needed_count_{0};
  std::atomic<unsigned> quick_rounds_{0};
};

}  // namespace hymn
