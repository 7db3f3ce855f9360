#include "runtime/group/works_in_flight.hpp"

#include <array>
#include <iterator>
#include <utility>

#include "base/own_process.hpp"
#include "runtime/group/group_state.hpp"
#include "runtime/group/work_state.hpp"

namespace hymn {
namespace {

// About as long as it takes to look at the clock and at the one that is waited for.
constexpr std::size_t works_a_turn = 32;
// Where one that has just begun to be waited for is looked at again at once.
constexpr std::size_t works_a_quick_turn = 4;
constexpr unsigned rounds_between_looks = 32;

/// A child made by fork() begins with nothing: what was in flight belongs to its parent.
struct OfProcess {
  std::shared_ptr<WorksInFlight> works = std::make_shared<WorksInFlight>();
  ForkWatch watch{[this] {
    // Never destroyed there: another thread may have held its lock.
    [[maybe_unused]] static auto* const copy = new std::shared_ptr<WorksInFlight>(works);
    works = std::make_shared<WorksInFlight>();
  }};
};

}  // namespace

std::shared_ptr<WorksInFlight> WorksInFlight::of_process() {
  static auto* const only = new OfProcess();  // outlives the exit handlers that use it
  return only->works;
}

std::shared_ptr<WorksInFlight> WorksInFlight::of_thread() {
  static thread_local const auto own = std::make_shared<WorksInFlight>();
  return own;
}

void WorksInFlight::step_all_here() {
  of_process()->step_all();
  of_thread()->step_all();
}

void WorksInFlight::add(std::shared_ptr<detail::WorkState> work) {
  const std::lock_guard lock(mutex_);
  if (work->parts().peers_need_steps()) needed_count_.fetch_add(1, std::memory_order_acq_rel);
  if (spare_.empty()) spare_.emplace_front();
  spare_.front() = std::move(work);
  works_.splice(works_.end(), spare_, spare_.begin());
  works_.back()->place_ = std::prev(works_.end());
  count_.store(works_.size(), std::memory_order_release);
}

std::shared_ptr<detail::WorkState> WorksInFlight::remove(detail::WorkState& work) {
  const std::lock_guard lock(mutex_);
  if (!work.place_) return nullptr;
  const auto place = *std::exchange(work.place_, std::nullopt);
  if (turn_ == place) ++turn_;
  next_to_end_ = std::next(place);
  auto removed = std::move(*place);
  spare_.splice(spare_.begin(), works_, place);
  if (spare_.size() > most_spare) spare_.pop_back();
  if (removed->parts().peers_need_steps()) needed_count_.fetch_sub(1, std::memory_order_acq_rel);
  count_.store(works_.size(), std::memory_order_release);
  return removed;
}

template <std::size_t most>
bool WorksInFlight::step_turns(bool from_next_to_end, detail::RoundTime& time) {
  // Steps run outside the lock: they may complete works, and those may start new ones.
  std::array<std::shared_ptr<detail::WorkState>, most> some;
  std::size_t taken = 0;
  bool all_had_theirs = false;
  {
    const std::lock_guard lock(mutex_);
    // Where there is room for all none is passed over, wherever quick rounds have got to.
    if (turn_ == works_.end() || (time.looks() && works_.size() <= most)) turn_ = works_.begin();
    if (from_next_to_end && works_.size() > most) {
      auto next = next_to_end_ == works_.end() ? works_.begin() : next_to_end_;
      while (taken < most / 2 && next != works_.end()) some[taken++] = *next++;
    }
    while (taken < most && turn_ != works_.end()) some[taken++] = *turn_++;
    all_had_theirs = turn_ == works_.end();
  }
  for (std::size_t i = 0; i < taken; ++i)
    if (some[i]->group().world().life.may_end_works()) some[i]->step(0, time);
  return all_had_theirs;
}

bool WorksInFlight::step_some(detail::RoundTime& time) {
  mail_->move();
  if (time.looks()) return step_turns<works_a_turn>(true, time);
  if (quick_rounds_.fetch_add(1, std::memory_order_relaxed) % rounds_between_looks != 0)
    return step_turns<works_a_quick_turn>(true, time);
  detail::RoundTime looking;
  return step_turns<works_a_turn>(true, looking);
}

void WorksInFlight::step_all() {
  mail_->move();
  std::size_t stepped = 0;
  const std::size_t all = count();
  if (all == 0) return;
  detail::RoundTime time;
  // Other threads may be at it, too.
  while (!step_turns<works_a_turn>(false, time) && (stepped += works_a_turn) < all) continue;
}

}  // namespace hymn
