// What a program wants to be told of each operation that has completed.
#pragma once

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
  using Clock = std::chrono::system_clock;

  explicit CompletionHook(Function function) : function_(std::move(function)) {}

  /// What is called when an operation that starts now has ended; with whether it has succeeded.
  static std::function<void(bool)> at_end(const std::shared_ptr<CompletionHook>& hook,
                                          c10d::OpType type, std::uint64_t sequence);
  /// Until all that were started have ended, and the hook has been called for them.
  void wait_for_pending();

 private:
  void end(Info info);

  const Function function_;
  std::mutex mutex_;
  std::condition_variable has_ended_;
  std::size_t pending_ = 0;
  std::deque<Info> ended_;
  bool is_calling_ = false;  ///< some thread calls the function, for all others
};

}  // namespace hymn_torch
