// Polite waiting: spin while a peer may answer at once, then give the core away, then sleep a
// little.
#pragma once

#include <time.h>

#include <algorithm>
#include <thread>

namespace hymn {

/// One wait. `crowded` says that ranks share cores: then the peer we wait for may need ours, and
/// spinning only keeps it from running. `woken`: who is waited for would wake us, so that sleep
/// costs less, and comes earlier.
class Waiter {
 public:
  explicit Waiter(bool crowded, bool woken = false)
      : turn_(crowded ? spins : 0), woken_(woken && crowded) {
    if (woken_) turn_ = spins + yields - yields_if_woken;
  }

  /// How long a thread sleeps at most, in nanoseconds, before it looks at the clock and at its
  /// group again.
  static constexpr long longest_rest = 10'000'000;

  /// Past spinning: a pause may take long now.
  bool is_sleepy() const { return turn_ >= spins + yields; }

  void pause() {
    pause([] { return false; });
  }
  /// `elsewhere` tells whether nobody who is waited for needs this core: then it is kept a little
  /// longer each time before it is given away.
  template <class Elsewhere>
  void pause(Elsewhere elsewhere) {
    if (turn_ < spins) {
      // At first not even that: most waits are over after a few steps.
      if (++turn_ > eager) relax();
    } else if (woken_ && turn_ < spins + yields && kept_ < most_kept && elsewhere()) {
      ++kept_;
      relax();
    } else if (turn_ < spins + yields) {
      kept_ = 0;
      // Not every time: what is waited for may move only by the steps between, and MPI yields too.
      ++turn_;
      if (woken_ || turn_ % steps_between_yields == 0) std::this_thread::yield();
    } else {
      // A wait that has been long may go on for long.
      const timespec nap{0, nap_};
      nanosleep(&nap, nullptr);
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
  static constexpr long longest_nap = 1'000'000;

  static void relax() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  int turn_;
  int kept_ = 0;
  bool woken_;
  long nap_ = 50'000;
};

}  // namespace hymn
