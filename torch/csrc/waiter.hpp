// The thread that sees the end of what nobody waits for: operations whose future somebody has
// asked for, and those whose handle is gone.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "operation.hpp"

namespace hymn_torch {

class Waiter {
 public:
  static Waiter& of_process();

  void add(std::shared_ptr<Operation> operation);
  /// At the end of the process: it looks at nothing from now on.
  void stop();

 private:
  using Operations = std::vector<std::shared_ptr<Operation>>;

  Waiter() = default;
  void run();
  Operations take_new(bool may_sleep);
  static bool look_at(Operations& operations);

  std::mutex mutex_;
  std::condition_variable has_news_;
  std::condition_variable has_stopped_;
  Operations new_;
  bool is_running_ = false;
  bool is_stopping_ = false;
};

}  // namespace hymn_torch
