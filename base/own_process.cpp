#include "base/own_process.hpp"

#include <pthread.h>

#include <atomic>
#include <mutex>
#include <set>

namespace hymn {
namespace {

std::atomic<unsigned> forks{0};

}  // namespace

/// All of a process. fork() finds the list whole, for it waits for whoever changes it.
class ForkWatches {
 public:
  /// Never destroyed: processes fork, and end, at any time.
  static ForkWatches& of_process() {
    static auto* const only = new ForkWatches();
    return *only;
  }
  void add(ForkWatch* watch) {
    const std::lock_guard lock(mutex_);
    all_.insert(watch);
  }
  void remove(ForkWatch* watch) {
    const std::lock_guard lock(mutex_);
    all_.erase(watch);
  }

 private:
  ForkWatches() {
    pthread_atfork([] { of_process().mutex_.lock(); }, [] { of_process().mutex_.unlock(); },
                   [] { of_process().wake_in_child(); });
  }
  void wake_in_child() {
    forks.fetch_add(1, std::memory_order_relaxed);
    mutex_.unlock();
    for (const ForkWatch* watch : all_)
      if (watch->in_child_) watch->in_child_();
  }

  std::mutex mutex_;
  std::set<ForkWatch*> all_;
};

unsigned fork_count() noexcept {
  // The handler that counts is there from the first call on.
  static ForkWatches& watches = ForkWatches::of_process();
  static_cast<void>(watches);
  return forks.load(std::memory_order_relaxed);
}

ForkWatch::ForkWatch(std::function<void()> in_child) : in_child_(std::move(in_child)) {
  ForkWatches::of_process().add(this);
}

ForkWatch::~ForkWatch() { ForkWatches::of_process().remove(this); }

}  // namespace hymn
