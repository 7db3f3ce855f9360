// The one listener to MPI: whether it may be called at all, and by which thread.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#include "base/config.hpp"

namespace hymn {

/// Shared by everything that calls MPI in a process. Whoever finalizes MPI closes it first, and
/// finds nobody inside.
class MpiGate {
 public:
  /// Where threads may call MPI beside each other, `main_thread` is the one that may finalize it,
  /// or none if that is not known; else it is the only one that may call.
  MpiGate(ThreadLevel level, std::thread::id main_thread)
      : level_(level), main_thread_(main_thread) {}

  ThreadLevel level() const { return level_; }
  /// False once MPI is being, or has been, finalized, and in a child made by fork().
  bool is_open() const { return state_.load(std::memory_order_seq_cst) == State::open; }
  /// From now on nobody comes in. Returns when all have left; false: one of them is in a call that
  /// does not return.
  bool close();
  /// This process is a copy of the one that has initialised MPI, which it cannot use.
  void close_in_child() { state_.store(State::copied, std::memory_order_seq_cst); }

  /// Permission to call MPI while it lives. Throws UsageError when MPI has been finalized, or when
  /// this thread may not call MPI at the level that was granted.
  class Entry {
   public:
    explicit Entry(MpiGate& gate) : gate_(gate) {
      const bool is_main = std::this_thread::get_id() == gate.main_thread_;
      if (gate.level_ >= ThreadLevel::serialized) {
        if (gate.level_ == ThreadLevel::serialized) gate.mutex_.lock();
        // Who finalizes cannot be inside at the same time: it need not be counted.
        is_counted_ = !is_main;
        if (is_counted_) gate.inside_.fetch_add(1, std::memory_order_seq_cst);
        if (!gate.is_open()) refuse();
        return;
      }
      if (!gate.is_open()) gate.throw_closed();
      if (!is_main) throw_wrong_thread(gate.level_);
    }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    ~Entry() { leave(); }

   private:
    void leave() {
      if (is_counted_) gate_.inside_.fetch_sub(1, std::memory_order_seq_cst);
      if (gate_.level_ == ThreadLevel::serialized) gate_.mutex_.unlock();
    }
    [[noreturn]] void refuse();
    [[noreturn]] static void throw_wrong_thread(ThreadLevel level);
    MpiGate& gate_;
    bool is_counted_ = false;
  };

  /// Throws the UsageError of an Entry to a gate that is not open.
  [[noreturn]] void throw_closed() const;

  /// Whether a blocking MPI call may be made: not where it would keep the other threads of this
  /// process, for which it may be waiting, out of MPI.
  bool may_block() const { return level_ != ThreadLevel::serialized; }
  /// Whether this thread may enter now; never throws.
  bool may_enter() const {
    return is_open() &&
           (level_ >= ThreadLevel::serialized || std::this_thread::get_id() == main_thread_);
  }

 private:
  enum class State : unsigned char { open, finalized, copied };

  ThreadLevel level_;
  std::thread::id main_thread_;
  std::atomic<State> state_{State::open};
  std::atomic<int> inside_{0};  ///< threads, but for the one that may finalize
  std::mutex mutex_;
};

}  // namespace hymn
