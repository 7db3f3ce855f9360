// Whether a world can be used: still, in this process, by this thread.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "base/own_process.hpp"
#include "hymn/exchange.hpp"
#include "runtime/mechanisms/mechanism.hpp"

namespace hymn::detail {

/// Thread-safe.
class WorldLife {
 public:
  WorldLife(int rank, std::shared_ptr<const Exchange> exchange,
            const std::vector<std::unique_ptr<Mechanism>>& mechanisms);

  /// What the world is called in messages.
  std::string name() const { return exchange_->name(); }
  /// Whether this thread may move operations forward now.
  bool may_drive() const {
    for (const Mechanism* gate : gates_)
      if (!gate->may_drive()) return false;
    return true;
  }
  /// Whether this thread may step works, be it to end them: what MPI was finalized under fails at
  /// its next step, on any thread.
  bool may_end_works() const {
    return !is_copied() && !is_unwound() && (may_drive() || !exchange_->is_open());
  }
  /// False once nothing can be sent any more: MPI has been finalized, or this is another process.
  bool is_open() const { return !is_copied() && exchange_->is_open(); }
  /// This process is a child made by fork() of the one that has the world. Nothing of it may be
  /// used: what its peers see belongs to the parent.
  bool is_copied() const { return copied_.load(std::memory_order_relaxed); }
  /// Throws UsageError where that is so.
  void require_here(const ErrorContext& context) const;
  /// Throws UsageError when this thread may not move operations forward.
  void require_drive(const ErrorContext& context) const;

  /// Something went wrong in a way that leaves ranks out of step.
  void mark_failed() { failed_.store(true, std::memory_order_release); }
  bool has_failed() const { return failed_.load(std::memory_order_acquire); }
  /// This rank leaves because of an exception: it will not wait for its peers at the end.
  void mark_leaving() { leaving_.store(true, std::memory_order_release); }
  bool is_leaving() const { return leaving_.load(std::memory_order_acquire); }
  /// An exception has come out of this rank's function: what was on its stack is gone, and with it,
  /// perhaps, the buffers of what is in flight. So it is where the rank is_leaving().
  void mark_unwound() { unwound_.store(true, std::memory_order_release); }
  bool is_unwound() const { return is_leaving() || unwound_.load(std::memory_order_acquire); }
  /// True for the first who asks: nobody may use the world from now on.
  bool begin_to_end() { return !destroyed_.exchange(true, std::memory_order_acq_rel); }
  bool is_destroyed() const { return destroyed_.load(std::memory_order_acquire); }

 private:
  int rank_;
  std::shared_ptr<const Exchange> exchange_;
  std::vector<const Mechanism*> gates_;  ///< those that have one
  std::atomic<bool> failed_{false};
  std::atomic<bool> leaving_{false};
  std::atomic<bool> unwound_{false};
  std::atomic<bool> destroyed_{false};
  std::atomic<bool> copied_{false};
  // In a child the world has ended, for all who ask.
  ForkWatch fork_watch_{[this] {
    copied_.store(true, std::memory_order_relaxed);
    destroyed_.store(true, std::memory_order_relaxed);
  }};
};

}  // namespace hymn::detail
