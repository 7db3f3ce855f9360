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
      : level_(level), main_thread_(main_thread), takes_turns_(level == ThreadLevel::serialized) {}

  ThreadLevel level() const { return level_; }
  /// False once MPI is being, or has been, finalized, and in a child made by fork().
  bool is_open() const { return state_.load(std::memory_order_seq_cst) == State::open; }
  /// From now on one thread at a time is in MPI, as where threads may not call it beside each
  /// other: in MPI_Finalize not every MPI keeps its word that they may. Returns when all others
  /// have left, or have been in a call for too long.
  void take_turns();
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
        // Who finalizes cannot be inside at the same time: it need not be counted.
        is_counted_ = !is_main;
        if (!enter()) enter_in_turn();
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
    void come() {
      if (is_counted_) gate_.inside_.fetch_add(1, std::memory_order_seq_cst);
    }
    void go() {
      if (is_counted_) gate_.inside_.fetch_sub(1, std::memory_order_seq_cst);
    }
    // Looks once more when it is counted: whoever begins to take turns waits for those that are.
    bool enter() {
      if (gate_.takes_turns()) return false;
      come();
      if (!gate_.takes_turns()) return true;
      go();
      return false;
    }
    void enter_in_turn() {
      gate_.mutex_.lock();
      has_turn_ = true;
      come();
    }
    void leave() {
      go();
      if (has_turn_) gate_.mutex_.unlock();
    }
    [[noreturn]] void refuse();
    [[noreturn]] static void throw_wrong_thread(ThreadLevel level);
    MpiGate& gate_;
    bool is_counted_ = false;
    bool has_turn_ = false;
  };

  /// Throws the UsageError of an Entry to a gate that is not open.
  [[noreturn]] void throw_closed() const;

  /// Whether a blocking MPI call may be made: not where it would keep the other threads of this
  /// process, for which it may be waiting, out of MPI.
  bool may_block() const { return !takes_turns(); }
  /// Whether this thread may enter now; never throws.
  bool may_enter() const {
    return is_open() &&
           (level_ >= ThreadLevel::serialized || std::this_thread::get_id() == main_thread_);
  }

 private:
  enum class State : unsigned char { open, finalized, copied };

  bool takes_turns() const { return takes_turns_.load(std::memory_order_seq_cst); }
  /// False: some are in a call that does not return.
  bool wait_for_all();

  ThreadLevel level_;
  std::thread::id main_thread_;
  std::atomic<bool> takes_turns_;
  std::atomic<State> state_{State::open};
  std::atomic<int> inside_{0};  ///< threads, but for the one that may finalize
  std::mutex mutex_;
};

}  // namespace hymn
