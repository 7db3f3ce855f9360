// What a program wants to be told of each operation that has completed.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "torch_version.hpp"

namespace hymn_torch {

class CompletionHook {
 public:
  using Info = std::shared_ptr<c10d::WorkInfo>;
  using Function = std::function<void(Info)>;

  explicit CompletionHook(Function function) : function_(std::move(function)) {}

  /// Until none is pending, and the hook has been called for those that have succeeded. Throws what
  /// handlers of signals raise.
  void wait_for_pending();

 private:
  friend class PendingOperation;

  void add_pending();
  void drop_pending();
  void tell(Info info);

  const Function function_;
  std::mutex mutex_;
  std::condition_variable has_ended_;
  std::size_t pending_ = 0;
  std::deque<Info> ended_;
  bool is_calling_ = false;  ///< some thread calls the function, for all others
};

/// An operation, from before its start until the hook has been told of it, or never will be.
class PendingOperation {
 public:
  explicit PendingOperation(std::shared_ptr<CompletionHook> hook);
  PendingOperation(const PendingOperation&) = delete;
  PendingOperation& operator=(const PendingOperation&) = delete;
  ~PendingOperation() { hook_->drop_pending(); }

  /// What is to be called when it is over; with whether it has succeeded.
  static std::function<void(bool)> at_end(std::shared_ptr<PendingOperation> pending,
                                          c10d::OpType type, std::uint64_t sequence);

 private:
  void tell(c10d::OpType type, std::uint64_t sequence) const;

  // Torch's may be the date, which may be set meanwhile: it does not tell how long something takes.
  using Date = decltype(c10d::WorkInfo::timeStarted)::clock;
  using Clock = std::chrono::steady_clock;

  const std::shared_ptr<CompletionHook> hook_;
  const Date::time_point date_ = Date::now();
  const Clock::time_point began_ = Clock::now();
};

}  // namespace hymn_torch
