// Threads that complete futures, and so run the callbacks that hang on them. A callback may wait
// for another future, as torch's own hooks do: whoever sees the ends of operations must never be in
// one.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

namespace hymn_torch {

class CallbackThreads {
 public:
  static CallbackThreads& of_process();

  /// On a thread that is in no other callback; one is made where all are.
  void run(std::function<void()> task);

 private:
  CallbackThreads() = default;
  void serve();

  std::mutex mutex_;
  std::condition_variable has_tasks_;
  std::deque<std::function<void()>> tasks_;
  std::size_t idle_ = 0;
};

}  // namespace hymn_torch
