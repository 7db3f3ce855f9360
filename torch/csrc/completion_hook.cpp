// What a program wants to be told of each operation that has completed.
#include "completion_hook.hpp"

#include <cstdio>
#include <exception>
#include <utility>

namespace hymn_torch {

std::function<void(bool)> CompletionHook::at_end(const std::shared_ptr<CompletionHook>& hook,
                                                 c10d::OpType type, std::uint64_t sequence) {
  {
    const std::lock_guard<std::mutex> lock(hook->mutex_);
    ++hook->pending_;
  }
  return [hook, type, sequence, began = Clock::now()](bool has_succeeded) {
    const auto ended = Clock::now();
    hook->end(has_succeeded
                  ? std::make_shared<c10d::WorkInfo>(type, sequence, began, ended, ended - began)
                  : nullptr);
  };
}

// Whoever comes while another thread calls the function leaves it what is to be told: the function
// is in one thread at a time.
void CompletionHook::end(Info info) {
  std::unique_lock<std::mutex> lock(mutex_);
  ended_.push_back(std::move(info));
  if (is_calling_) return;
  is_calling_ = true;
  while (!ended_.empty()) {
    const Info next = std::move(ended_.front());
    ended_.pop_front();
    lock.unlock();
    try {
      if (next) function_(next);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "hymn-torch warning: a completion hook: %s\n", error.what());
    }
    lock.lock();
    --pending_;
  }
  is_calling_ = false;
  has_ended_.notify_all();
}

void CompletionHook::wait_for_pending() {
  std::unique_lock<std::mutex> lock(mutex_);
  has_ended_.wait(lock, [this] { return pending_ == 0; });
}

}  // namespace hymn_torch
