#include "runtime/world/group_maker.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/helper_thread.hpp"
#include "hymn/error.hpp"
#include "topology/affinity.hpp"

namespace hymn {

void GroupMaker::add(std::function<void()> make) {
  std::unique_lock lock(mutex_);
  if (ending_ || !has_thread()) {
    lock.unlock();
    make();
    return;
  }
  waiting_.push_back(std::move(make));
  changed_.notify_all();
}

bool GroupMaker::has_thread() {
  try {
    if (!thread_.joinable())
      thread_ = start_helper_thread("hymn-groups", [this] { run(); }, [](std::string_view) {});
    return true;
  } catch (const ResourceError&) {
    return false;
  }
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

// --- Many of them

namespace {

// What a thread may take for its end when what it has made is told.
constexpr std::chrono::milliseconds last_steps{200};

}  // namespace

void GroupMakers::add(std::function<void()> make) {
  const auto task = std::make_shared<std::function<void()>>(std::move(make));
  if (!start(task)) (*task)();
}

// Under the lock, so that the thread has its place before it can end. Whoever has waited for one of
// the groups may be here before its thread is gone.
bool GroupMakers::start(const std::shared_ptr<std::function<void()>>& make) {
  std::unique_lock lock(mutex_);
  if (ending_) return false;
  if (!changed_.wait_for(lock, last_steps, [this] { return running_.size() < most; }))
    throw ResourceError(fmt::format("{} groups are being made in the background already", most),
                        {.operation = "new_group_async", .remedy = "wait for some of them first"});
  const auto own = running_.emplace(running_.end());
  try {
    *own = start_helper_thread(
        "hymn-groups", [this, own, make] { run(own, *make); }, [](std::string_view) {});
    return true;
  } catch (const ResourceError&) {
    running_.erase(own);
    return false;
  } catch (...) {
    running_.erase(own);
    throw;
  }
}

void GroupMakers::run(Threads::iterator own, std::function<void()>& make) {
  bind_this_thread(cpus_);
  run_guarded(make, [](std::string_view) {});  // what it makes hears of its own failures
  make = nullptr;  // what it holds ends before anybody hears that it is made
  join_ended();
  const std::lock_guard lock(mutex_);
  ended_.splice(ended_.end(), running_, own);
  changed_.notify_all();
}

void GroupMakers::join_ended() {
  Threads ended;
  {
    const std::lock_guard lock(mutex_);
    ended.swap(ended_);
  }
  for (std::thread& thread : ended) thread.join();
}

bool GroupMakers::settle(const Patience& patience) {
  std::unique_lock lock(mutex_);
  return PatientWait(patience).until(lock, changed_, [this] { return running_.empty(); });
}

void GroupMakers::finish() {
  {
    std::unique_lock lock(mutex_);
    ending_ = true;
    changed_.wait(lock, [this] { return running_.empty(); });
  }
  join_ended();
}

}  // namespace hymn
