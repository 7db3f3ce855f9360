#include "runtime/group/progress_engine.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/helper_thread.hpp"
#include "base/waiter.hpp"
#include "runtime/group/group_state.hpp"
#include "runtime/group/work_state.hpp"
#include "topology/affinity.hpp"

namespace hymn {

ProgressEngine::ProgressEngine(std::function<bool()> may_drive, bool crowded, bool own_thread,
                               CpuSet own_cpus)
    : may_drive_(std::move(may_drive)),
      crowded_(crowded),
      has_own_thread_(own_thread),
      own_cpus_(std::move(own_cpus)) {
  if (own_thread) thread_ = std::thread([this] { run_own_thread(); });
}

ProgressEngine::~ProgressEngine() { shut_down(); }

void ProgressEngine::add(std::shared_ptr<detail::WorkState> work) {
  {
    std::lock_guard lock(mutex_);
    works_.push_back(std::move(work));
    pending_count_.store(works_.size(), std::memory_order_release);
  }
  changed_.notify_one();
}

void ProgressEngine::keep(std::unique_ptr<Residue> residue) {
  if (residue == nullptr) return;
  std::lock_guard lock(mutex_);
  residues_.push_back(std::move(residue));
}

void ProgressEngine::sweep() {
  // A work may be the last to hold its group: it must not die under the lock.
  std::vector<std::shared_ptr<detail::WorkState>> ended;
  std::lock_guard lock(mutex_);
  const auto first_ended = std::stable_partition(
      works_.begin(), works_.end(), [](const auto& work) { return !work->is_completed(); });
  ended.assign(std::make_move_iterator(first_ended), std::make_move_iterator(works_.end()));
  works_.erase(first_ended, works_.end());
  std::erase_if(residues_, [](const auto& residue) { return residue->done(); });
  pending_count_.store(works_.size(), std::memory_order_release);
}

bool ProgressEngine::is_drained() {
  sweep();
  std::lock_guard lock(mutex_);
  return works_.empty() && residues_.empty();
}

void ProgressEngine::step_all() {
  if (is_idle() || !may_drive_()) return;
  // Steps run outside the lock: they may complete works, and those may start new ones.
  const auto works = pending([](const detail::WorkState&) { return true; });
  for (const auto& work : works) work->step();
  sweep();
}

// Under the lock, so that no work ends on the thread that asks: see sweep().
std::vector<ProgressEngine::Overdue> ProgressEngine::overdue(TimePoint now) const {
  std::vector<Overdue> found;
  if (is_idle()) return found;
  std::lock_guard lock(mutex_);
  for (const auto& work : works_)
    if (work->is_overdue(now))
      found.push_back({work->group().membership().uid, work->type(), work->sequence()});
  return found;
}

void ProgressEngine::step_what_peers_need() {
  const auto needed = [](const detail::WorkState& work) { return work.peers_need_steps(); };
  Waiter waiter(crowded_);
  while (!is_idle() && !pending(needed).empty()) {
    step_all();
    waiter.pause();
  }
}

std::vector<std::shared_ptr<detail::WorkState>> ProgressEngine::pending(
    const std::function<bool(const detail::WorkState&)>& wanted) const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<detail::WorkState>> found;
  std::copy_if(works_.begin(), works_.end(), std::back_inserter(found),
               [&](const auto& work) { return !work->is_completed() && wanted(*work); });
  return found;
}

void ProgressEngine::run_own_thread() {
  name_this_thread("hymn-progress");
  // Where the kernel refuses, it stays where the thread that made it is.
  bind_this_thread(own_cpus_);
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !works_.empty(); });
      if (stopping_) return;
    }
    // Always as if cores were shared: the application's threads come first.
    Waiter waiter(true);
    while (!is_idle()) {
      step_all();
      {
        std::lock_guard lock(mutex_);
        if (stopping_) return;
      }
      waiter.pause();
    }
  }
}

std::vector<std::unique_ptr<Residue>> ProgressEngine::shut_down() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  sweep();
  std::lock_guard lock(mutex_);
  return std::exchange(residues_, {});
}

}  // namespace hymn
