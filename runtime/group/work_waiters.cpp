#include "runtime/group/work_waiters.hpp"

namespace hymn::detail {
namespace {

// Who computes for less will soon be back.
constexpr Duration undriven_after = std::chrono::milliseconds(500);

}  // namespace

void WorkWaiters::add() {
  if (sure_.fetch_add(1) == 0) parts_.show_waited_for(true);
}

void WorkWaiters::remove(bool has_ended) {
  if (sure_.fetch_sub(1) != 1 || has_ended) return;
  // Another may come meanwhile: what is recorded last is what holds.
  bool waited_for = true;
  do {
    waited_for = sure_.load() != 0;
    parts_.show_waited_for(waited_for);
  } while (waited_for != (sure_.load() != 0));
}

void WorkWaiters::remove_limit() {
  limits_.fetch_sub(1, std::memory_order_relaxed);
  set_seen_to(false);
}

void WorkWaiters::look(TimePoint now, bool by_itself) {
  const std::uint32_t steps = steps_.load(std::memory_order_relaxed);
  const bool is_driven = there_are() || by_itself;
  if (!moved_on_ || steps != steps_seen_ || is_driven || !parts_.are_on_host()) moved_on_ = now;
  steps_seen_ = steps;
  const bool undriven = now - *moved_on_ >= undriven_after;
  if (undriven != is_undriven_.exchange(undriven, std::memory_order_relaxed))
    parts_.show_undriven(undriven);
}

}  // namespace hymn::detail
