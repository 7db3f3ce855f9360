#include "runtime/progress_engine.hpp"

#include <algorithm>
#include <utility>

#include "base/waiter.hpp"
#include "runtime/work_state.hpp"

namespace hymn {

ProgressEngine::ProgressEngine(std::function<bool()> may_drive, bool crowded, bool own_thread)
    : may_drive_(std::move(may_drive)), crowded_(crowded), has_own_thread_(own_thread) {
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

bool ProgressEngine::is_drained() {
  std::lock_guard lock(mutex_);
  std::erase_if(residues_, [](const auto& residue) { return residue->done(); });
  return is_idle() && residues_.empty();
}

void ProgressEngine::step_all() {
  if (is_idle() || !may_drive_()) return;
  // Steps run outside the lock: they may complete works, and those may start new ones.
  const auto works = pending([](const detail::WorkState&) { return true; });
  for (const auto& work : works) work->step();
  std::lock_guard lock(mutex_);
  std::erase_if(works_, [](const auto& work) { return work->is_completed(); });
  std::erase_if(residues_, [](const auto& residue) { return residue->done(); });
  pending_count_.store(works_.size(), std::memory_order_release);
}

void ProgressEngine::finish_what_peers_need() {
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
  std::lock_guard lock(mutex_);
  std::erase_if(residues_, [](const auto& residue) { return residue->done(); });
  return std::exchange(residues_, {});
}

}  // namespace hymn
