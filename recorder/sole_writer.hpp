// One thread that needs no locked instructions, as long as no other comes.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

namespace hymn {

/// Any thread may call, but in most processes only one does. The first one that comes may go
/// without the locked instructions that keep threads apart. The first other one ends that for good:
/// it has the kernel put a fence into all threads of the process (membarrier), so that the first
/// pays for none before. Thread-safe.
class SoleWriter {
 public:
  /// Where the kernel has no such fence, nobody is ever alone.
  SoleWriter();
  /// Whether this thread is the one, which others keep away from until it leaves.
  bool try_enter() {
    const std::uint64_t me = this_thread();
    if (owner_.load(std::memory_order_relaxed) != me && !become_owner(me)) return false;
    inside_.store(true, std::memory_order_relaxed);
    // The two must not change places, as a processor would let them. Only the compiler is told:
    // the processor is by end().
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (owner_.load(std::memory_order_relaxed) == me) return true;
    leave();
    return false;
  }
  void leave() { inside_.store(false, std::memory_order_release); }
  /// After this nobody is alone any more. Returns whether that is certain; where the kernel refuses
  /// what it had promised, the caller must keep away.
  bool end() { return ended_.load(std::memory_order_acquire) || end_now(); }

 private:
  static constexpr std::uint64_t nobody_yet = 0;
  static constexpr std::uint64_t nobody_any_more = 1;
  static std::uint64_t this_thread() { return static_cast<std::uint64_t>(pthread_self()); }
  bool become_owner(std::uint64_t me) {
    std::uint64_t expected = nobody_yet;
    return owner_.load(std::memory_order_relaxed) == nobody_yet &&
           owner_.compare_exchange_strong(expected, me, std::memory_order_acq_rel);
  }
  bool end_now();

  std::atomic<std::uint64_t> owner_{nobody_yet};
  std::atomic<bool> inside_{false};
  std::atomic<bool> ended_{false};
};

}  // namespace hymn
