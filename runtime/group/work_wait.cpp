#include "runtime/group/work_wait.hpp"

#include "base/error_context.hpp"
#include "base/waiter.hpp"
#include "hymn/error.hpp"
#include "runtime/group/group_state.hpp"
#include "runtime/group/observed.hpp"

namespace hymn::detail {

void WorkWait::require_driver() const {
  // Asked here first: a context is words, which cost more than the rest of a small call.
  if (work_.is_completed()) return;
  const GroupMembers& members = work_.group().members();
  if (world_.life.is_copied()) world_.life.require_here(members.context(work_.name().title()));
  // Nothing is stepped any more: it would wait for ever.
  if (world_.life.is_unwound())
    throw AbortedError("this rank leaves because of an error, and gives up what it has in flight",
                       members.context(work_.name().title()));
  if (world_.engine->has_own_thread() || world_.life.may_end_works()) return;
  world_.life.require_drive(members.context(work_.name().title()));
}

bool WorkWait::test() {
  move_on();
  return work_.is_completed();
}

bool WorkWait::move_on() {
  require_driver();
  // Others may wait for what is not being waited for here.
  if (work_.is_completed() || (world_.life.may_drive() && work_.step())) return true;
  return world_.engine->step_some();
}

void WorkWait::wait(Timeout timeout) {
  if (CallObserver* const observer = call_observer(); observer && work_.observed_as() != 0)
      [[unlikely]]
    observer->waits(work_.observed_as());
  require_driver();
  GroupWatch& watch = work_.group().watch();
  const bool is_timed = timeout.is_set() || watch.is_watched();
  const TimePoint began = is_timed ? world_.clock().now() : TimePoint{};
  const bool has_waited = !work_.is_completed();
  if (has_waited) work_.waiters_.add();
  if (timeout.is_set()) work_.waiters_.add_limit();
  const bool expired = !wait_until(Deadline::after(timeout, began));
  if (timeout.is_set()) work_.waiters_.remove_limit();
  if (has_waited) work_.waiters_.remove(work_.is_completed());
  if (is_timed && watch.is_watched()) [[unlikely]]
    watch.note_waited(work_, world_.clock().now() - began);
  if (expired) expire(world_.clock().now() - began, timeout);
  if (const auto error = work_.error()) std::rethrow_exception(error);
}

bool WorkWait::wait_until(Deadline deadline) {
  ProgressEngine& engine = *world_.engine;
  // As in a blocking call: most waits are over sooner. Where ranks share cores a turn may be long.
  const unsigned first_look = !deadline.is_never() && engine.oversubscribed() ? 1 : 16;
  RoundTime at_once(RoundTime::Look::no);
  // Of several parts all but one may be over after a step, and that one can park.
  if (may_step()) work_.step(0, at_once);
  Waiter waiter(engine.oversubscription(), work_.parts().can_park());
  for (unsigned turn = 1; !work_.is_completed(); ++turn) {
    RoundTime time(turn >= first_look || waiter.is_sleepy() ? RoundTime::Look::yes
                                                            : RoundTime::Look::no);
    // With nothing else to move forward it may sleep until a peer has done something.
    const bool parks = waiter.is_sleepy() && work_.parts().can_park() && engine.has_one() &&
                       !engine.has_own_thread();
    if (may_step() && work_.step(parks ? waiter.next_park() : 0, time)) break;
    const bool all_stepped = parks || engine.has_one() || engine.step_some(time);
    if (work_.is_completed()) break;
    if (time.looks() && !deadline.is_never() && deadline.expired(time.now(world_.clock())) &&
        !(may_step() && work_.step()))
      return false;
    if (!parks && (all_stepped || !waiter.is_sleepy())) waiter.pause([this] { return awaited(); });
  }
  return true;
}

Awaited WorkWait::awaited() const {
  const std::unique_lock lock(work_.step_mutex_, std::try_to_lock);
  return lock ? work_.parts().awaited() : Awaited::somewhere;
}

void WorkWait::expire(Duration waited, Timeout limit) {
  const bool gives_up = world_.settings.config.blocking_wait;
  auto error = work_.group().inquiry().timeout_error(pending_of(work_), waited, limit, gives_up);
  if (!gives_up) std::rethrow_exception(error);
  work_.fail_unless_ended(std::move(error));
}

void WorkWait::await_enqueued() {
  ProgressEngine& engine = *world_.engine;
  Waiter waiter(engine.oversubscription());
  while (true) {
    {
      const std::lock_guard lock(work_.step_mutex_);
      if (work_.is_completed() || work_.parts().are_enqueued()) break;
    }
    // Others may have to go first; its own limit is looked at in its steps.
    const bool all_stepped = work_.step() || engine.step_some();
    if (all_stepped || !waiter.is_sleepy()) waiter.pause();
  }
  if (const auto error = work_.error()) std::rethrow_exception(error);
}

void WorkWait::wait_on(void* stream) {
  require_driver();
  try {
    require_own_stream(stream, work_.group().means().reach);
  } catch (...) {
    rethrow_with(work_.group().members().context(work_.name().title()));
  }
  await_enqueued();
  {
    const std::lock_guard lock(work_.step_mutex_);
    if (work_.is_completed()) return;
    if (work_.parts().can_let_wait()) {
      work_.parts().let_wait(stream);
      return;
    }
  }
  wait({});
}

}  // namespace hymn::detail
