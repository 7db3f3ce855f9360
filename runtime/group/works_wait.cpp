#include "runtime/group/works_wait.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/waiter.hpp"
#include "hymn/error.hpp"
#include "runtime/group/group_state.hpp"
#include "runtime/group/work_wait.hpp"

namespace hymn::detail {
namespace {

WorldContext& world_of(const WorkState* work) { return work->group().world(); }

}  // namespace

WorksWait::WorksWait(std::vector<WorkState*> works, Timeout timeout, For waits_for)
    : works_(std::move(works)),
      timeout_(timeout),
      needs_all_(waits_for == For::all || works_.size() == 1),
      began_(std::chrono::steady_clock::now()) {
  for (WorkState* work : works_) {
    const auto is_of_same = [&](const WorkState* other) {
      return &world_of(other) == &world_of(work);
    };
    if (std::ranges::none_of(one_of_each_world_, is_of_same)) one_of_each_world_.push_back(work);
  }
  for (WorkState* work : works_) {
    needs_all_ ? work->waiters_.add() : work->waiters_.add_to_any();
    if (timeout_.is_set()) work->waiters_.add_limit();
  }
}

WorksWait::~WorksWait() {
  for (WorkState* work : works_) {
    if (timeout_.is_set()) work->waiters_.remove_limit();
    needs_all_ ? work->waiters_.remove(work->is_completed()) : work->waiters_.remove_from_any();
  }
}

void WorksWait::all() {
  const Deadline deadline = Deadline::after(timeout_, began_);
  const auto left = [&]() -> Timeout {
    if (deadline.is_never()) return timeout_;
    return std::max(deadline.when() - std::chrono::steady_clock::now(), Duration(0));
  };
  std::exception_ptr first_error;
  for (WorkState* work : works_) {
    try {
      WorkWait(*work).wait(left());
    } catch (...) {
      if (!work->is_completed()) throw;  // it is not, or no longer, waited for
    }
    if (!first_error) first_error = work->error();
  }
  if (first_error) std::rethrow_exception(first_error);
}

WorkState* WorksWait::completed() const {
  const auto found =
      std::ranges::find_if(works_, [](const WorkState* work) { return work->is_completed(); });
  return found == works_.end() ? nullptr : *found;
}

bool WorksWait::move_on() const {
  bool all_stepped = true;
  for (WorkState* work : one_of_each_world_)
    if (!WorkWait(*work).move_on()) all_stepped = false;
  return all_stepped;
}

WorkState& WorksWait::any() {
  for (WorkState* work : works_) WorkWait(*work).require_driver();
  const Deadline deadline = Deadline::after(timeout_, began_);
  Waiter waiter(world_of(works_.front()).engine->oversubscription());
  while (true) {
    const bool all_stepped = move_on();
    const TimePoint now = std::chrono::steady_clock::now();
    if (WorkState* work = completed()) {
      GroupWatch& watch = work->group().watch();
      if (watch.is_watched()) [[unlikely]]
        watch.note_waited(*work, now - began_);
      return *work;
    }
    if (deadline.expired(now)) expire(now - began_);
    if (all_stepped || !waiter.is_sleepy()) waiter.pause();
  }
}

void WorksWait::expire(Duration waited) const {
  const WorkState& first = *works_.front();
  const std::exception_ptr error =
      first.group().inquiry().timeout_error(pending_of(first), waited, timeout_, false);
  if (works_.size() == 1) std::rethrow_exception(error);
  try {
    std::rethrow_exception(error);
  } catch (const TimeoutError& one) {
    throw TimeoutError(fmt::format("{}; nor has any other of the {} operations completed",
                                   one.problem(), works_.size()),
                       one.waited(), one.context());
  }
}

}  // namespace hymn::detail
