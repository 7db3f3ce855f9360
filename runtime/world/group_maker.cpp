#include "runtime/world/group_maker.hpp"

#include <algorithm>
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

bool GroupMaker::is_idle() {
  const std::lock_guard lock(mutex_);
  return !busy_ && waiting_.empty();
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

// --- Many of them

std::unique_ptr<GroupMaker> GroupMakers::take_idle() {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(makers_, [](const auto& one) { return one->is_idle(); });
  if (found == makers_.end()) return std::make_unique<GroupMaker>(cpus_);
  auto maker = std::move(*found);
  makers_.erase(found);
  return maker;
}

// Where no thread can be started it is made here, and may add others.
void GroupMakers::add(std::function<void()> make) {
  auto maker = take_idle();
  maker->add(std::move(make));
  const std::lock_guard lock(mutex_);
  makers_.push_back(std::move(maker));
}

bool GroupMakers::settle(const Patience& patience) {
  PatientWait wait(patience);
  return wait.until([this] {
    const std::lock_guard lock(mutex_);
    return std::ranges::all_of(makers_, [](const auto& maker) { return maker->is_idle(); });
  });
}

void GroupMakers::finish() {
  for (const auto& maker : makers_) maker->finish();
}

}  // namespace hymn
