#include "runtime/group/work_state.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/callback_scope.hpp"
#include "base/error_context.hpp"
#include "runtime/group/call_title.hpp"
#include "runtime/group/group_state.hpp"
#include "runtime/group/work_wait.hpp"

namespace hymn::detail {
namespace {

// Peers may have done their part long ago, while nobody looked: to see to the rest takes more than
// one step, but no time.
constexpr int last_steps = 1000;

}  // namespace

WorkState::WorkState(std::shared_ptr<GroupState> group, Timeout limit, WorkName name)
    : group_(std::move(group)), limit_(limit), name_(name), parts_(*group_), waiters_(parts_) {}

std::string WorkName::title() const {
  return title_of(PendingOp{.type = type, .sequence = sequence});
}

PendingOp pending_of(const WorkState& work) {
  return work.parts().pending({.type = work.name().type, .sequence = work.name().sequence});
}

void WorkState::start() {
  if (group_->watch().is_watched()) [[unlikely]]
    begin_limit();
  try {
    parts_.start();
  } catch (...) {
    const auto caught = group_->health().explained(std::current_exception(), name_.title());
    const auto failure = group_->health().describe_failure(caught, name_.title());
    const bool clean = parts_.give_up(failure.reason);
    if (must_abort_group(clean)) group_->health().abort(failure);
    parts_.fail_unstarted();
    parts_.show_retired();
    group_->works().end_given_up();
    const auto error = with_context(caught, group_->members().context(name_.title()));
    if (group_->watch().is_watched()) group_->watch().note_ended(*this, error);
    group_->watch().tell_ended();
    std::rethrow_exception(error);
  }
}

// Only where a look costs next to nothing, as into memory that ranks share: others would ask the
// system, or are launched together with what follows. What fails does so when it is stepped again,
// for those who wait for all that is in flight.
bool WorkState::ends_at_once() {
  if (name_.is_ordered() || !parts_.can_park() || parts_.path() != "shm" ||
      group_->watch().is_watched() || !group_->world().life.may_end_works())
    return false;
  {
    const std::lock_guard lock(step_mutex_);
    try {
      if (!parts_.step(0)) return false;
    } catch (...) {
      early_error_ = std::current_exception();
      return false;
    }
    finish_completed();
  }
  group_->watch().tell_ended();
  return true;
}

void WorkState::begin_limit() {
  if (started_ != TimePoint{}) return;
  started_ = group_->world().clock().now();
  deadline_ = Deadline::after(limit_, started_);
}

bool WorkState::step(long nanoseconds, RoundTime& time) {
  if (is_completed()) return true;
  {
    std::unique_lock lock(step_mutex_, std::defer_lock);
    // Who would sleep anyway may as well wait for the thread that is at it.
    if (nanoseconds > 0)
      lock.lock();
    else if (!lock.try_lock())
      return is_completed();
    if (has_ended()) return is_completed();
    if (!advance(nanoseconds, time)) return false;
  }
  conclude();
  return true;
}

bool WorkState::advance(long nanoseconds, RoundTime& time) {
  waiters_.note_step();
  // Asked before the step, so that what had completed before the abort counts.
  const bool was_aborted = group_->health().is_aborted();
  if (try_to_end(nanoseconds)) return true;
  if (!group_->health().is_sound() || !group_->world().life.is_open()) [[unlikely]] {
    if (was_aborted) {
      parts_.give_up(group_->health().abort_failure().reason);
      finish(Ended::failed, group_->health().aborted_error(name_.title()));
      return true;
    }
    if (auto error = parts_.hopeless()) {
      fail(std::move(error));
      return true;
    }
  }
  // While somebody waits with a limit of their own, the operation's own is not looked at.
  if (!time.looks() || waiters_.have_limits()) return false;
  const TimePoint now = time.now(group_->world().clock());
  if (!deadline_.expired(now)) {
    auto error =
        name_.is_ordered() ? group_->agreement().look_for_other_calls(started_, now) : nullptr;
    if (!error) return false;
    fail(std::move(error));
    return true;
  }
  for (int i = 0; i < last_steps; ++i)
    if (try_to_end(0)) return true;
  fail(group_->inquiry().timeout_error(pending_of(*this), now - started_, limit_));
  return true;
}

bool WorkState::try_to_end(long nanoseconds) {
  try {
    if (early_error_) [[unlikely]]
      std::rethrow_exception(std::exchange(early_error_, nullptr));
    if (!parts_.step(nanoseconds) || (name_.is_ordered() && !group_->record().is_next(*this)))
      return false;
    finish_completed();
  } catch (...) {
    fail(std::current_exception());
  }
  return true;
}

bool WorkState::must_abort_group(bool clean) const {
  return name_.is_ordered() || name_.is_joint || !clean || group_->health().has_failed_members();
}

void WorkState::fail(std::exception_ptr error) {
  error = group_->health().explained(std::move(error), name_.title());
  const auto failure = group_->health().describe_failure(error, name_.title());
  // Before anything is taken back: what comes then must be nobody else's.
  if (must_abort_group(true)) group_->health().abort(failure);
  const bool clean = parts_.give_up(failure.reason);
  if (must_abort_group(clean))
    group_->health().abort(failure);
  else
    group_->health().note_failed_message(failure);
  finish(Ended::failed, with_context(error, group_->members().context(name_.title())));
}

void WorkState::fail_unless_ended(std::exception_ptr error) {
  {
    std::lock_guard lock(step_mutex_);
    if (!has_ended()) fail(std::move(error));
  }
  conclude();
}

void WorkState::finish_completed() {
  std::exception_ptr refusal = parts_.refusal();
  finish(refusal ? Ended::failed : Ended::well, std::move(refusal), true);
}

void WorkState::finish(Ended how, std::exception_ptr error, bool has_completed) {
  error_ = std::move(error);
  parts_.show_retired();
  // Before the next one may end; of one that has failed, hooks hear when everybody may.
  if (how == Ended::well && group_->watch().is_watched()) [[unlikely]] {
    begin_limit();  // it may not have been watched yet when it started
    group_->watch().note_ended(*this, nullptr);
  }
  if (name_.is_ordered()) group_->record().dequeue(*this, has_completed);
  ended_.store(how, std::memory_order_release);
}

bool WorkState::abandon(const std::string& reason) {
  const std::lock_guard lock(step_mutex_);
  if (!has_ended()) {
    group_->health().note_given_up();
    if (!parts_.give_up(reason)) group_->world().life.mark_failed();
    finish(Ended::failed,
           std::make_exception_ptr(AbortedError(reason, group_->members().context(name_.title()))));
  }
  return is_untold();
}

bool WorkState::end_given_up() {
  const std::lock_guard lock(step_mutex_);
  RoundTime time;
  return has_ended() ? is_untold() : advance(0, time);
}

void WorkState::conclude() {
  const auto others =
      error_ ? group_->works().end_untold() : std::vector<std::shared_ptr<WorkState>>();
  const auto removed = publish();
  for (const auto& other : others) other->publish();
  call_back();
  for (const auto& other : others) other->call_back();
}

std::shared_ptr<WorkState> WorkState::publish() {
  if (is_untold()) {
    const std::lock_guard lock(step_mutex_);
    if (is_untold() && group_->watch().is_watched()) group_->watch().note_ended(*this, error_);
    ended_.store(Ended::badly, std::memory_order_release);
  }
  return group_->world().engine->remove(*this);
}

void WorkState::call_back() {
  std::shared_ptr<FutureState<std::vector<BufferView>>> state;
  {
    // The future keeps this work alive to wait for it: let go, or neither would ever die.
    std::lock_guard lock(future_mutex_);
    state = std::exchange(future_, nullptr);
  }
  if (state) {
    const CallbackScope scope;
    settle(*state);
  }
  group_->watch().tell_ended();
}

void tell_all(std::span<const std::shared_ptr<WorkState>> works) {
  for (const auto& work : works) work->publish();
  for (const auto& work : works) work->call_back();
}

void WorkState::require_good_end(std::string_view what) const {
  if (!is_completed()) {
    ErrorContext context = group_->members().context(name_.title());
    context.remedy = "wait() first";
    throw UsageError(fmt::format("there is no {} yet", what), std::move(context));
  }
  if (error_) std::rethrow_exception(error_);
}

std::vector<BufferView> WorkState::result() const {
  require_good_end("result");
  return parts_.outputs();
}

std::vector<RecvStatus> WorkState::statuses() const {
  require_good_end("status");
  return parts_.statuses();
}

Future<std::vector<BufferView>> WorkState::future(const std::shared_ptr<WorkState>& self) {
  std::shared_ptr<FutureState<std::vector<BufferView>>> state;
  {
    std::lock_guard lock(future_mutex_);
    if (!future_ && !is_completed()) {
      future_ = std::make_shared<FutureState<std::vector<BufferView>>>(
          [self](Timeout timeout) { WorkWait(*self).wait(timeout); });
    }
    state = future_;
  }
  if (!state) {
    state = std::make_shared<FutureState<std::vector<BufferView>>>(Drive());
    settle(*state);
  }
  return Future<std::vector<BufferView>>(state);
}

void WorkState::settle(FutureState<std::vector<BufferView>>& state) const {
  if (error_)
    state.set_error(error_);
  else
    state.set_value(result());
}

}  // namespace hymn::detail
