// Tells hooks what has ended, in the order in which it ended.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/log.hpp"
#include "base/patience.hpp"
#include "hymn/process_group.hpp"

namespace hymn {

/// What has ended is noted where it ends, possibly under locks, and told later, outside of them, by
/// one thread at a time. Any thread may call anything at any time, hooks included.
class Completions {
 public:
  void add_hook(CompletionHook hook);
  void note(CompletionInfo info);
  /// Tells what has been noted, unless another thread is at it: that one tells it, too.
  void tell(const Logger& logger);
  /// As tell(), and returns when all that has been noted until now is told; but within a hook,
  /// whose caller tells the rest. False: a hook on another thread has taken longer than that.
  bool settle(const Logger& logger, const Patience& patience);
  /// As settle(), and lets go of the hooks, which may hold what holds this.
  void close(const Logger& logger, const Patience& patience);

 private:
  using Hooks = std::vector<CompletionHook>;
  static void call(const Hooks& hooks, const CompletionInfo& info, const Logger& logger);

  std::mutex mutex_;
  std::condition_variable told_;
  std::shared_ptr<const Hooks> hooks_ = std::make_shared<Hooks>();  // never changed, but replaced
  std::deque<CompletionInfo> waiting_;
  std::thread::id teller_{};  // none: nobody is at it
  bool closed_ = false;
};

}  // namespace hymn
