#include "runtime/group/progress_engine.hpp"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "base/helper_thread.hpp"
#include "base/waiter.hpp"
#include "runtime/group/group_state.hpp"
#include "runtime/group/work_state.hpp"
#include "runtime/group/world_context.hpp"
#include "topology/affinity.hpp"

namespace hymn {
namespace {

ProgressEngine::Overdue overdue_of(const detail::WorkState& work) {
  return {work.group().members().membership().uid, pending_of(work), work.parts().are_on_host()};
}

}  // namespace

ProgressEngine::ProgressEngine(std::shared_ptr<WorksInFlight> works,
                               std::function<bool()> may_drive, bool oversubscribed,
                               bool own_thread, CpuSet own_cpus)
    : works_(std::move(works)),
      may_drive_(std::move(may_drive)),
      oversubscription_(oversubscribed),
      has_own_thread_(own_thread),
      own_cpus_(std::move(own_cpus)) {
  if (!own_thread) return;
  thread_ = start_thread("hymn-progress", [this] {
    run_guarded([this] { run_own_thread(); },
                [this](std::string_view why) { own_thread_failed(why); });
  });
}

ProgressEngine::~ProgressEngine() { shut_down(); }

void ProgressEngine::add(std::shared_ptr<detail::WorkState> work) {
  own_count_.fetch_add(1, std::memory_order_acq_rel);
  works_->add(std::move(work));
  if (!has_own_thread()) return;
  {
    const std::lock_guard lock(mutex_);
  }  // it may be about to sleep
  changed_.notify_one();
}

std::shared_ptr<detail::WorkState> ProgressEngine::remove(detail::WorkState& work) {
  auto removed = works_->remove(work);
  if (removed) own_count_.fetch_sub(1, std::memory_order_acq_rel);
  return removed;
}

template <class Visit>
void ProgressEngine::for_each_own(Visit visit) const {
  if (!has_works()) return;
  works_->for_each([&](const std::shared_ptr<detail::WorkState>& work) {
    if (work->group().world().engine.get() == this) visit(work);
  });
}

void ProgressEngine::keep(std::unique_ptr<AbandonedOperation> abandoned) {
  if (abandoned == nullptr) return;
  // What comes after another failure is no reason to hold all that was before.
  if (may_drive_()) forget_done_abandoned();
  std::lock_guard lock(mutex_);
  abandoned_operations_.push_back(std::move(abandoned));
}

void ProgressEngine::forget_done_abandoned() {
  std::lock_guard lock(mutex_);
  std::erase_if(abandoned_operations_, [](const auto& abandoned) { return abandoned->done(); });
}

bool ProgressEngine::is_drained() {
  forget_done_abandoned();
  std::lock_guard lock(mutex_);
  return !has_works() && abandoned_operations_.empty();
}

bool ProgressEngine::step_some(detail::RoundTime& time) {
  if (is_idle()) return true;
  if (!works_->step_some(time)) return false;
  if (may_drive_()) forget_done_abandoned();
  return true;
}

// Of the collectives of a group the newest tells of all: whoever has come to it has come to those
// before.
std::vector<ProgressEngine::Overdue> ProgressEngine::take_overdue(TimePoint now) {
  std::map<std::uint64_t, Overdue> newest;
  std::map<std::uint64_t, Overdue> messages;
  for_each_own([&](const auto& work) {
    if (work->waiters().is_seen_to() || !work->is_overdue(now)) return;
    work->waiters().set_seen_to(true);
    const Overdue one = overdue_of(*work);
    if (!work->name().is_ordered() && !one.on_host) messages.try_emplace(one.uid, one);
    if (!work->name().is_ordered()) return;
    const bool on_host = !newest.contains(one.uid) || newest[one.uid].on_host;
    newest[one.uid] = one;
    newest[one.uid].on_host = one.on_host && on_host;
  });
  std::vector<Overdue> found;
  for (const auto& [uid, one] : newest) found.push_back(one);
  for (const auto& [uid, one] : messages) found.push_back(one);
  return found;
}

void ProgressEngine::tell_overdue_again(std::uint64_t uid) {
  for_each_own([&](const auto& work) {
    if (work->group().members().membership().uid == uid) work->waiters().set_seen_to(false);
  });
}

std::optional<ProgressEngine::Overdue> ProgressEngine::still_overdue(const Overdue& one,
                                                                     std::uint64_t first,
                                                                     TimePoint now) const {
  const auto is_meant = [&](const detail::WorkState& work) {
    if (work.group().members().membership().uid != one.uid) return false;
    if (is_collective(one.op.type))
      return work.name().is_ordered() && work.name().sequence >= first;
    return work.name().type == one.op.type && work.name().sequence == one.op.sequence;
  };
  std::optional<Overdue> found;
  for_each_own([&](const auto& work) {
    if (!found && is_meant(*work) && work->is_overdue(now)) found = overdue_of(*work);
  });
  return found;
}

void ProgressEngine::look_what_is_driven(TimePoint now) {
  for_each_own([this, now](const auto& work) { work->waiters().look(now, has_own_thread()); });
}

bool ProgressEngine::is_undriven(std::uint64_t uid, std::uint64_t sequence) const {
  bool found = false;
  for_each_own([&](const auto& work) {
    found =
        found || (work->name().is_ordered() && work->group().members().membership().uid == uid &&
                  work->name().sequence == sequence && !work->is_completed() &&
                  work->waiters().is_undriven());
  });
  return found;
}

void ProgressEngine::step_what_peers_need() {
  Waiter waiter(oversubscription_);
  while (works_->needed_count() != 0)
    if (step_some() || !waiter.is_sleepy()) waiter.pause();
}

std::vector<std::shared_ptr<detail::WorkState>> ProgressEngine::pending(
    const std::function<bool(const detail::WorkState&)>& wanted) const {
  std::vector<std::shared_ptr<detail::WorkState>> found;
  for_each_own([&](const auto& work) {
    if (!work->is_completed() && wanted(*work)) found.push_back(work);
  });
  return found;
}

void ProgressEngine::run_own_thread() {
  // Where the kernel refuses, it stays where the thread that made it is.
  bind_this_thread(own_cpus_);
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || has_works(); });
      if (stopping_) return;
    }
    // Always as if cores were shared: the application's threads come first.
    Waiter waiter(true);
    while (has_works()) {
      const bool all_stepped = step_some();
      {
        std::lock_guard lock(mutex_);
        if (stopping_) return;
      }
      if (all_stepped || !waiter.is_sleepy()) waiter.pause();
    }
  }
}

void ProgressEngine::own_thread_failed(std::string_view why) {
  has_own_thread_.store(false, std::memory_order_release);
  auto works = pending([](const detail::WorkState&) { return true; });
  const std::string reason = fmt::format("the progress thread has failed: {}", why);
  std::erase_if(works, [&reason](const auto& work) { return !work->abandon(reason); });
  detail::tell_all(works);
}

std::vector<std::unique_ptr<AbandonedOperation>> ProgressEngine::shut_down() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  forget_done_abandoned();
  std::lock_guard lock(mutex_);
  return std::exchange(abandoned_operations_, {});
}

}  // namespace hymn
