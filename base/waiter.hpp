// Polite waiting: spin while a peer may answer at once, then give the core away, then sleep a
// little.
#pragma once

#include <time.h>

#include <thread>

namespace hymn {

/// One wait. `crowded` says that ranks share cores: then the peer we wait for may need ours, and
/// spinning only keeps it from running.
class Waiter {
 public:
  explicit Waiter(bool crowded) : turn_(crowded ? spins : 0) {}

  /// Past spinning: a pause may take long now.
  bool is_sleepy() const { return turn_ >= spins + yields; }

  void pause() {
    if (turn_ < spins) {
      // At first not even that: most waits are over after a few steps.
      if (++turn_ > eager) relax();
    } else if (turn_ < spins + yields) {
      // Not every time: what is waited for may move only by the steps between, and MPI yields too.
      if (++turn_ % steps_between_yields == 0) std::this_thread::yield();
    } else {
      const timespec nap{0, 50'000};
      nanosleep(&nap, nullptr);
    }
  }

 private:
  static constexpr int eager = 64;
  static constexpr int spins = 2000;
  static constexpr int yields = 20000;
  static constexpr int steps_between_yields = 8;

  static void relax() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  int turn_;
};

}  // namespace hymn
