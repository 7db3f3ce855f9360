// How everything waits that waits for other ranks: for how long, looking at what, doing what
// meanwhile.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/long_wait.hpp"
#include "base/waiter.hpp"
#include "hymn/error.hpp"

namespace hymn {

/// How long to wait, and for what.
struct Patience {
  Deadline deadline = Deadline::never();
  const Clock* clock = &steady_clock();
  bool oversubscribed = true;  ///< ranks share cores: see Waiter
  std::string purpose;         ///< "making group 3": said in the error
  /// There are no other ranks (World::fake): each is taken to say what this one says.
  bool alone = false;
  /// Whether nothing is to be expected of this rank any more: then it is not waited for. Empty: of
  /// none is that known.
  std::function<bool(int rank)> is_hopeless{};
  /// Done again and again while this rank waits: it moves what else is in flight in the process,
  /// for which those who are waited for may wait themselves, and throws where there is no sense in
  /// waiting any more. Never called with a lock held. Empty: nothing.
  std::function<void()> meanwhile{};
  /// As often: throws where it is in vain to wait for the others. On any thread.
  std::function<void()> watch{};
  /// Told when the wait has lasted for long. Null: nobody wants to hear of it.
  std::shared_ptr<LongWait> long_wait{};
  ErrorContext context{};
};

/// One wait. All loops that wait for other ranks turn in here, but those of operations, which have
/// a step of their own to take (GroupState::drive, WorkState::step).
class PatientWait {
 public:
  /// What tells of a long wait where more is known of it than that all of `needed` are.
  using TellLong = std::function<void(TimePoint now)>;
  /// In vain without any of `needed`. What it is given must stay.
  explicit PatientWait(const Patience& patience, std::span<const int> needed = {},
                       TellLong tell_long = {})
      : patience_(patience),
        needed_(needed),
        tell_long_(std::move(tell_long)),
        started_(patience.clock->now()),
        waiter_(patience.oversubscribed) {}

  /// Until `is_done`: true. False: time is up, or the wait is in vain, and it is not done even so.
  template <class Done>
  bool until(Done is_done) {
    while (!is_done()) {
      if (!turn()) return is_done();
    }
    return true;
  }
  /// The same for what wakes a sleeper: `rest` sleeps until there may be news, and no longer than
  /// it is told, or thinks right itself; false, at once: nothing would wake it.
  template <class Done, class Rest>
  bool until(Done is_done, Rest rest) {
    for (int looks = 0; !is_done(); ++looks) {
      const bool is_tired = looks > looks_awake;
      if (!may_go_on(is_tired || waiter_.is_sleepy())) return is_done();
      if (!is_tired || !rest(next_rest())) waiter_.pause();
    }
    return true;
  }
  /// Between two looks at what is waited for; false: no more of them.
  bool turn() {
    if (!may_go_on(waiter_.is_sleepy())) return false;
    waiter_.pause();
    return true;
  }
  /// The same for what changes under `lock`, with a word through `changed`: whoever gives it may
  /// need the core, so this sleeps, no longer at a time than `meanwhile` can wait.
  template <class Done>
  bool until(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, Done is_done) {
    for (int naps = 0; !is_done(); ++naps) {
      const bool has_waited = naps > short_naps;
      lock.unlock();
      const bool goes_on = may_go_on(has_waited);
      const Duration nap = has_waited ? long_nap : short_nap;
      const bool has_napped = goes_on && WaitingThread::gives_turn(nap.count());
      lock.lock();
      if (!goes_on) return is_done();
      if (!has_napped) changed.wait_for(lock, nap, is_done);
    }
    return true;
  }

  Duration waited() const { return patience_.clock->now() - started_; }
  /// Those for whom the wait is in vain.
  const std::vector<int>& hopeless() const { return hopeless_; }

 private:
  static constexpr Duration short_nap = std::chrono::microseconds(10);
  static constexpr Duration long_nap = std::chrono::milliseconds(1);
  static constexpr Duration longest_rest = std::chrono::milliseconds(100);
  static constexpr int short_naps = 300;  // some 20 ms
  static constexpr int looks_awake = 300;

  /// Looks at time and ranks, and does what is to be done meanwhile, which may throw. `has_waited`:
  /// for so long that it is time to look for who is lost.
  bool may_go_on(bool has_waited);
  /// A wait that has been long may go on for long.
  Duration next_rest() const { return std::clamp<Duration>(waited() / 16, long_nap, longest_rest); }
  void look_whether_long(TimePoint now);

  const Patience& patience_;
  std::span<const int> needed_;
  TellLong tell_long_;
  TimePoint started_;
  Waiter waiter_;
  unsigned turn_ = 0;
  std::vector<int> hopeless_;
};

}  // namespace hymn
