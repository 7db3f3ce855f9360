// The one door to MPI: whether it may be called at all, and by which thread.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#include "base/config.hpp"

namespace hymn {

/// Shared by everything that calls MPI in a process.
class MpiGate {
 public:
  MpiGate(ThreadLevel level, std::thread::id main_thread)
      : level_(level), main_thread_(main_thread) {}

  ThreadLevel level() const { return level_; }
  /// False once MPI is being, or has been, finalized.
  bool is_open() const { return open_.load(std::memory_order_acquire); }
  void close() { open_.store(false, std::memory_order_release); }

  /// Permission to call MPI while it lives. Throws UsageError when MPI has been finalized, or when
  /// this thread may not call MPI at the level that was granted.
  class Entry {
   public:
    explicit Entry(MpiGate& gate) : gate_(gate) {
      if (!gate.is_open()) throw_closed();
      if (gate.level_ == ThreadLevel::multiple) return;
      if (gate.level_ == ThreadLevel::serialized) {
        gate.mutex_.lock();
      } else if (std::this_thread::get_id() != gate.main_thread_) {
        throw_wrong_thread(gate.level_);
      }
    }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    ~Entry() {
      if (gate_.level_ == ThreadLevel::serialized) gate_.mutex_.unlock();
    }

   private:
    [[noreturn]] static void throw_closed();
    [[noreturn]] static void throw_wrong_thread(ThreadLevel level);
    MpiGate& gate_;
  };

  /// Whether a blocking MPI call may be made: not where it would keep the other threads of this
  /// process, for which it may be waiting, out of MPI.
  bool may_block() const { return level_ != ThreadLevel::serialized; }
  /// Whether this thread may enter now; never throws.
  bool may_enter() const {
    return is_open() &&
           (level_ >= ThreadLevel::serialized || std::this_thread::get_id() == main_thread_);
  }

 private:
  ThreadLevel level_;
  std::thread::id main_thread_;
  std::atomic<bool> open_{true};
  std::mutex mutex_;
};

}  // namespace hymn
