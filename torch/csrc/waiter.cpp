// The thread that sees the end of what nobody waits for.
//
// It looks at each of its operations in turn, for they end in any order, and each may need another
// one first. Where none has ended and none has moved it sleeps, a little longer each time.
#include "waiter.hpp"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <thread>

#include "of_process.hpp"

namespace hymn_torch {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr microseconds first_pause{5};
constexpr microseconds longest_pause{200};
// A look that has taken longer has moved data: there may be more to move at once.
constexpr microseconds idle_look{10};

}  // namespace

Waiter& Waiter::of_process() {
  return only_of_process<Waiter>([] { return new Waiter; });
}

void Waiter::add(std::shared_ptr<Operation> operation) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (is_stopping_) {  // its memory stays: others may still read it
    new std::shared_ptr<Operation>(std::move(operation));
    return;
  }
  new_.push_back(std::move(operation));
  if (!is_running_) {
    is_running_ = true;
    std::thread([this] { run(); }).detach();
  }
  has_news_.notify_one();
}

void Waiter::stop() {
  std::unique_lock<std::mutex> lock(mutex_);
  is_stopping_ = true;
  has_news_.notify_one();
  has_stopped_.wait_for(lock, std::chrono::seconds(2), [this] { return !is_running_; });
}

Waiter::Operations Waiter::take_new(bool may_sleep) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (may_sleep) has_news_.wait(lock, [this] { return is_stopping_ || !new_.empty(); });
  return std::exchange(new_, {});
}

// Whether one of them is over.
bool Waiter::look_at(Operations& operations) {
  const auto is_over = [](const std::shared_ptr<Operation>& operation) {
    try {
      return operation->test(Operation::CallbacksOn::their_threads);
    } catch (...) {
      return true;  // hymn cannot tell of it any more
    }
  };
  const auto end = std::remove_if(operations.begin(), operations.end(), is_over);
  const bool any = end != operations.end();
  operations.erase(end, operations.end());
  return any;
}

void Waiter::run() {
  pthread_setname_np(pthread_self(), "hymn-futures");
  Operations operations;
  microseconds pause = first_pause;
  while (true) {
    Operations more = take_new(operations.empty());
    if (!more.empty()) pause = first_pause;
    std::move(more.begin(), more.end(), std::back_inserter(operations));
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (is_stopping_) {
        is_running_ = false;
        has_stopped_.notify_all();
        // Their memory stays: others may still read it.
        if (!operations.empty()) new Operations(std::move(operations));
        return;
      }
    }
    const auto began = Clock::now();
    const bool has_moved = look_at(operations) || Clock::now() - began > idle_look;
    if (has_moved || operations.empty()) {
      pause = first_pause;
    } else {
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, longest_pause);
    }
  }
}

}  // namespace hymn_torch
