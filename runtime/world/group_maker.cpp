#include "runtime/world/group_maker.hpp"

#include <utility>

#include "base/helper_thread.hpp"
#include "hymn/error.hpp"
#include "topology/affinity.hpp"

namespace hymn {

void GroupMaker::add(std::function<void()> make) {
  std::unique_lock lock(mutex_);
  if (!thread_.joinable()) {
    try {
      thread_ = start_helper_thread("hymn-groups", [this] { run(); }, [](std::string_view) {});
    } catch (const ResourceError&) {
      lock.unlock();
      make();
      return;
    }
  }
  waiting_.push_back(std::move(make));
  changed_.notify_all();
}

bool GroupMaker::settle(const Patience& patience) {
  std::unique_lock lock(mutex_);
  if (is_own_thread()) return true;
  PatientWait wait(patience);
  return wait.until(lock, changed_, [this] { return waiting_.empty() && !busy_; });
}

void GroupMaker::finish() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void GroupMaker::run() {
  bind_this_thread(cpus_);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    // What it holds ends before anybody hears that it is made.
    {
      const std::function<void()> make = std::exchange(waiting_.front(), nullptr);
      waiting_.pop_front();
      busy_ = true;
      lock.unlock();
      run_guarded(make, [](std::string_view) {});  // what it makes hears of its own failures
    }
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace hymn
