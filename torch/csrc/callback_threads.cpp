// Threads that complete futures.
#include "callback_threads.hpp"

#include <pthread.h>

#include <thread>
#include <utility>

#include "of_process.hpp"

namespace hymn_torch {

CallbackThreads& CallbackThreads::of_process() {
  return only_of_process<CallbackThreads>([] { return new CallbackThreads; });
}

void CallbackThreads::run(std::function<void()> task) {
  const std::lock_guard<std::mutex> lock(mutex_);
  tasks_.push_back(std::move(task));
  if (tasks_.size() > idle_) std::thread([this] { serve(); }).detach();
  has_tasks_.notify_one();
}

void CallbackThreads::serve() {
  pthread_setname_np(pthread_self(), "hymn-callbacks");
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    ++idle_;
    has_tasks_.wait(lock, [this] { return !tasks_.empty(); });
    --idle_;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace hymn_torch
