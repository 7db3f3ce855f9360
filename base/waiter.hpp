// Polite waiting: spin while a peer may answer at once, then give the core away, then sleep a
// little.
#pragma once

#include <algorithm>

#include "base/oversubscription.hpp"
#include "base/schedule_point.hpp"

namespace hymn {

/// What giving its core away has cost a thread. Among ranks that wait, too, that is a microsecond
/// or a few; to a process that computes it is a whole turn of that one's.
class YieldPrice {
 public:
  /// Not so soon again: all of it together may cost a tenth of the time.
  void paid(Duration took, TimePoint now) {
    if (took >= dear) dear_until_ = now + std::min(10 * took, CorePressure::memory);
  }
  bool is_dear(TimePoint now) const { return now < dear_until_; }

 private:
  // Shorter is what a peer computes; and the kernel's turns are longer.
  static constexpr Duration dear = std::chrono::milliseconds(1);
  TimePoint dear_until_{};
};

/// Whether a thread should sleep to get away from a peer on its core. Two who give a core to each
/// other stay on it for 10 to 50 ms even beside an idle one, for so seldom does the kernel look;
/// but whom it wakes it puts onto an idle core.
class CoreEscape {
 public:
  /// Not so soon again: there may be no idle core.
  bool is_due(TimePoint now) {
    if (now < next_) return false;
    next_ = now + pause;
    return true;
  }

 private:
  static constexpr Duration pause = std::chrono::milliseconds(2);
  TimePoint next_{};
};

/// What a waiter asks of the kernel, on the thread that waits.
struct WaitingThread {
  static void relax() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
  static void yield();
  static void nap(long nanoseconds);
  static TimePoint now();
  /// How often it has lost its core without asking.
  static long switches();
  static CorePressure& pressure();
  static YieldPrice& yield_price();
  static CoreEscape& core_escape();
  /// In a simulation, which then decides when the thread goes on.
  static bool gives_turn(long nanoseconds) {
    Schedule* const schedule = simulated_schedule();
    return schedule != nullptr && schedule->waits(nanoseconds);
  }
};

/// One wait. With ranks that share cores the peer we wait for may need ours, and spinning only
/// keeps it from running: it is given away at once. Where their number does not say so a wait that
/// lasts looks around: for a peer that has come onto this core, and for others that want it, too.
template <class Thread>
class BasicWaiter {
 public:
  /// `oversubscribed`: ranks share cores. Whoever knows no more than that.
  explicit BasicWaiter(bool oversubscribed)
      : turn_(oversubscribed ? spins : 0), next_look_(never) {}
  /// `woken`: who is waited for would wake us, so that sleep costs less, and comes earlier.
  explicit BasicWaiter(Oversubscription& oversubscription, bool woken = false)
      : oversubscription_(&oversubscription),
        is_woken_(woken),
        next_look_(oversubscription.is_noticed() ? 1 : turns_between_polls) {
    if (!oversubscription.is_counted()) return;
    turn_ = spins;
    park_ = longest_park;
    if (woken) give_way();
  }

  /// Past spinning: a pause may take long now.
  bool is_sleepy() const { return turn_ >= spins + yields; }
  /// How long a thread may sleep that peers wake, in nanoseconds, before it looks at the clock and
  /// at its group again.
  long next_park() {
    const long park = park_;
    park_ = std::min(2 * park_, longest_park);
    return park;
  }

  void pause() {
    pause([] { return Awaited::somewhere; });
  }
  /// `find` tells where those are who are waited for. While all of them are elsewhere, a core that
  /// may have to be given away is kept a little longer each time.
  template <class Find>
  void pause(Find find) {
    if (Thread::gives_turn(nap_)) [[unlikely]] {
      turn_ = spins + yields;
      nap_ = std::min(nap_ + nap_ / 8, longest_nap);
    } else if (turn_ < spins) {
      ++turn_;
      if (turn_ == next_look_) [[unlikely]]
        look_around(find());
      else if (turn_ > eager)  // At first not even that: most waits are over after a few steps.
        Thread::relax();
    } else if (gives_way_ && !is_sleepy() && kept_ < most_kept && find() == Awaited::elsewhere) {
      ++kept_;
      Thread::relax();
    } else if (!is_sleepy()) {
      kept_ = 0;
      // Not every time: what is waited for may move only by the steps between, and MPI yields too.
      ++turn_;
      if (gives_way_ || turn_ % steps_between_yields == 0) yield();
    } else {
      // A wait that has been long may go on for long.
      Thread::nap(nap_);
      nap_ = std::min(nap_ + nap_ / 8, longest_nap);
    }
  }

 private:
  static constexpr int eager = 64;
  static constexpr int spins = 2000;
  static constexpr int yields = 20000;
  static constexpr int steps_between_yields = 8;
  // Waking somebody takes far longer than giving the core away, above all on a virtual machine,
  // which gives an idle core back to its host.
  static constexpr int yields_if_woken = 300;
  // About as long as giving the core away and getting it back.
  static constexpr int most_kept = 64;
  // A microsecond or two: no answer takes that long that is on its way already.
  static constexpr int turns_between_polls = 16;
  static constexpr int never = -1;
  // Somewhat more than sleeping and being woken beside others costs.
  static constexpr Duration patience = std::chrono::microseconds(30);
  static constexpr long longest_nap = 1'000'000;
  static constexpr long longest_park = 10'000'000;

  void give_way() {
    gives_way_ = true;
    turn_ = spins + yields - (is_woken_ ? yields_if_woken : yields / steps_between_yields);
  }

  // Where giving the core away is dear, and somebody would wake us, sleeping is not: the kernel
  // keeps a sleeper's share of the core for it.
  void yield() {
    if (!is_woken_ || oversubscription_->is_counted()) return Thread::yield();
    YieldPrice& price = Thread::yield_price();
    const TimePoint began = Thread::now();
    if (price.is_dear(began)) {
      turn_ = spins + yields;
      return;
    }
    Thread::yield();
    const TimePoint ended = Thread::now();
    price.paid(ended - began, ended);
  }

  void look_around(Awaited awaited) {
    next_look_ = turn_ + turns_between_polls;
    if (oversubscription_ == nullptr) return;
    if (awaited != Awaited::somewhere) oversubscription_->notice(awaited == Awaited::here);
    // Who cannot tell does as others have found it right.
    if (oversubscription_->is_noticed()) {
      give_way();
      if (is_woken_ && awaited == Awaited::here && Thread::core_escape().is_due(Thread::now()))
        turn_ = spins + yields;
      else
        yield();
    } else if (is_woken_) {
      look_at_core();
    }
  }

  // To give a core that others want away for nothing loses a whole turn among them, and spinning
  // uses up what is ours of it. Who sleeps gets it back soon when it is woken; and the kernel may
  // move one of the others, perhaps the one that is waited for, to where the sleeper was.
  void look_at_core() {
    const TimePoint now = Thread::now();
    if (looked_ == TimePoint{}) looked_ = now;
    if (now - looked_ < patience) return;
    looked_ = now;
    CorePressure& pressure = Thread::pressure();
    pressure.count(Thread::switches(), now);
    if (pressure.is_high(now)) turn_ = spins + yields;
  }

  Oversubscription* oversubscription_ = nullptr;
  bool is_woken_ = false;
  bool gives_way_ = false;
  int turn_ = 0;
  int next_look_;
  int kept_ = 0;
  long nap_ = 50'000;
  long park_ = 1'000'000;
  TimePoint looked_{};
};

using Waiter = BasicWaiter<WaitingThread>;

}  // namespace hymn
