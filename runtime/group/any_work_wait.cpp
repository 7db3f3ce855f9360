#include "runtime/group/any_work_wait.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/waiter.hpp"
#include "hymn/error.hpp"
#include "runtime/group/group_state.hpp"
#include "runtime/group/work_wait.hpp"

namespace hymn::detail {

AnyWorkWait::AnyWorkWait(std::vector<WorkState*> works, Timeout timeout)
    : works_(std::move(works)), timeout_(timeout) {
  for (WorkState* work : works_) {
    work->waiters_.add();
    if (timeout_.is_set()) work->waiters_.add_limit();
  }
}

AnyWorkWait::~AnyWorkWait() {
  for (WorkState* work : works_) {
    if (timeout_.is_set()) work->waiters_.remove_limit();
    work->waiters_.remove(work->is_completed());
  }
}

WorkState* AnyWorkWait::completed() const {
  const auto found =
      std::ranges::find_if(works_, [](const WorkState* work) { return work->is_completed(); });
  return found == works_.end() ? nullptr : *found;
}

WorkState& AnyWorkWait::wait() {
  // The first is moved on, and with it all that is in flight in the process.
  WorkState& first = *works_.front();
  WorldContext& world = first.group().world();
  const TimePoint began = world.clock().now();
  const Deadline deadline = Deadline::after(timeout_, began);
  Waiter waiter(world.engine->oversubscription());
  while (true) {
    WorkWait(first).test();
    if (WorkState* work = completed()) return *work;
    const TimePoint now = world.clock().now();
    if (deadline.expired(now)) expire(now - began);
    waiter.pause();
  }
}

void AnyWorkWait::expire(Duration waited) const {
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
