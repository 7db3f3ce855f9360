#include "runtime/group/work_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/callback_scope.hpp"
#include "base/error_context.hpp"
#include "base/waiter.hpp"
#include "runtime/group/group_state.hpp"

namespace hymn::detail {
namespace {

// Peers may have done their part long ago, while nobody looked: to see to the rest takes more than
// one step, but no time.
constexpr int last_steps = 1000;
// Who computes for less will soon be back.
constexpr Duration undriven_after = std::chrono::milliseconds(500);

}  // namespace

OwnedRequest::OwnedRequest(const Request& request)
    : inputs_(request.inputs.layout() == Layout::list
                  ? std::vector(request.inputs.views().begin(), request.inputs.views().end())
                  : std::vector<ConstBufferView>()),
      outputs_(request.outputs.layout() == Layout::list
                   ? std::vector(request.outputs.views().begin(), request.outputs.views().end())
                   : std::vector<BufferView>()),
      input_counts_(request.inputs.counts().begin(), request.inputs.counts().end()),
      output_counts_(request.outputs.counts().begin(), request.outputs.counts().end()),
      request_(request) {
  request_.inputs = request.inputs.with_lists(inputs_, input_counts_);
  request_.outputs = request.outputs.with_lists(outputs_, output_counts_);
}

WorkState::WorkState(std::shared_ptr<GroupState> group, Timeout limit, OpType type,
                     std::uint64_t sequence)
    : group_(std::move(group)), limit_(limit), type_(type), sequence_(sequence) {}

WorkState::~WorkState() = default;

PendingOp WorkState::pending() const {
  PendingOp op{.type = type_, .sequence = sequence_};
  if (parts_.size() == 1) op.peer = parts_.front()->call.peer;
  if (is_ordered()) return op;
  for (const auto& part : parts_) {
    if (part->done.load(std::memory_order_relaxed)) continue;
    if (op.peers.empty()) op.first_part = part->call.sequence;
    op.peers.push_back(part->call.peer);
  }
  return op;
}

std::string WorkState::title() const { return fmt::format("{} #{}", to_string(type_), sequence_); }

std::string_view WorkState::path() const {
  return parts_.empty() ? std::string_view() : parts_.front()->algorithm->path();
}

std::string_view WorkState::algorithm() const {
  if (parts_.empty()) return {};
  const WorkPart& first = *parts_.front();
  return first.algorithm->model().name_for(first.call.request->type);
}

bool WorkState::peers_need_steps() const {
  return std::any_of(parts_.begin(), parts_.end(),
                     [](const auto& part) { return part->storage.get()->peers_need_steps(); });
}

void WorkState::coalesce() {
  if (parts_.size() < 2) return;
  for (std::size_t i = parts_.size(); i-- > 0;) {
    Call& call = parts_[i]->call;
    call.coalesced_in = this;
    const bool goes_on = i + 1 < parts_.size() && parts_[i + 1]->algorithm == parts_[i]->algorithm;
    call.together = goes_on ? parts_[i + 1]->call.together + 1 : 1;
  }
}

void WorkState::start() {
  on_host_ = std::none_of(parts_.begin(), parts_.end(), [](const auto& part) {
    const Request& request = part->request.get();
    return request.memory() == MemoryKind::device ||
           request.domain.kind == OrderingDomain::Kind::stream;
  });
  started_ = group_->world().clock().now();
  deadline_ = Deadline::after(limit_, started_);
  try {
    for (const auto& part : parts_) {
      // Counted first: one that fails here may have its place in an order already, or have shown
      // peers something.
      ++started_parts_;
      if (group_->world().ring().timing()) group_->world().ring().set_started(part->record_id);
      part->storage.get()->start();
    }
  } catch (...) {
    const auto caught = group_->health().explained(std::current_exception(), title());
    const auto failure = group_->health().describe_failure(caught, title());
    const bool clean = give_up_parts(failure.reason);
    if (must_abort_group(clean)) group_->health().abort(failure);
    for (const auto& part : parts_) {
      // Those that were not started any more, too.
      if (!part->done) group_->world().ring().set_ended(part->record_id, CallState::failed, true);
      group_->world().ring().set_retired(part->record_id);
    }
    const auto error = with_context(caught, group_->members().context(title()));
    if (group_->watch().is_watched()) group_->watch().note_ended(*this, error);
    group_->watch().tell_ended();
    std::rethrow_exception(error);
  }
}

bool WorkState::step(long nanoseconds) {
  if (is_completed()) return true;
  {
    std::unique_lock lock(step_mutex_, std::defer_lock);
    // Who would sleep anyway may as well wait for the thread that is at it.
    if (nanoseconds > 0)
      lock.lock();
    else if (!lock.try_lock())
      return is_completed();
    if (is_completed()) return true;
    if (!advance(nanoseconds)) return false;
  }
  conclude();
  return true;
}

void WorkState::look_whether_driven(TimePoint now) {
  const std::uint32_t steps = steps_.load(std::memory_order_relaxed);
  const bool is_waited_for = waiters_.load(std::memory_order_relaxed) != 0;
  const bool is_driven = is_waited_for || group_->world().engine->has_own_thread();
  if (!moved_on_ || steps != steps_seen_ || is_driven || !on_host_) moved_on_ = now;
  steps_seen_ = steps;
  const bool undriven = now - *moved_on_ >= undriven_after;
  if (undriven == is_undriven_.exchange(undriven, std::memory_order_relaxed)) return;
  for (const auto& part : parts_) group_->world().ring().set_undriven(part->record_id, undriven);
}

bool WorkState::advance(long nanoseconds) {
  steps_.store(steps_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  // Asked before the step, so that what had completed before the abort counts.
  const bool was_aborted = group_->health().is_aborted();
  if (try_to_end(nanoseconds)) return true;
  if (!group_->health().is_sound() || !group_->world().life.is_open()) [[unlikely]] {
    if (was_aborted) {
      give_up_parts(group_->health().abort_failure().reason);
      finish(Ended::badly, group_->health().aborted_error(title()));
      return true;
    }
    if (auto error = hopeless()) {
      fail(std::move(error));
      return true;
    }
  }
  if (explicit_waiters_.load(std::memory_order_relaxed) != 0) return false;
  const TimePoint now = group_->world().clock().now();
  if (!deadline_.expired(now)) {
    auto error = is_ordered() ? group_->agreement().look_for_other_calls(started_, now) : nullptr;
    if (!error) return false;
    fail(std::move(error));
    return true;
  }
  for (int i = 0; i < last_steps; ++i)
    if (try_to_end(0)) return true;
  fail(group_->inquiry().timeout_error(pending(), now - started_, limit_));
  return true;
}

bool WorkState::try_to_end(long nanoseconds) {
  try {
    if (!step_parts(nanoseconds) || (is_ordered() && !group_->record().is_next(*this)))
      return false;
    finish(Ended::well, nullptr);
  } catch (...) {
    fail(std::current_exception());
  }
  return true;
}

std::exception_ptr WorkState::hopeless() {
  for (const auto& part : parts_) {
    if (part->done) continue;
    const Call& call = part->call;
    try {
      auto error = group_->health().hopeless({call.request->type, call.sequence, call.peer},
                                             [&] { return step_part(*part, 0); });
      if (error) return error;
    } catch (...) {
      return std::current_exception();
    }
  }
  return nullptr;
}

bool WorkState::must_abort_group(bool clean) const {
  return is_ordered() || !clean || group_->health().has_failed_members();
}

bool WorkState::can_park() const {
  return completed_parts_.load(std::memory_order_relaxed) + 1 == parts_.size() &&
         std::all_of(parts_.begin(), parts_.end(),
                     [](const auto& part) { return part->storage.get()->can_park(); });
}

Awaited WorkState::awaited() {
  const std::unique_lock lock(step_mutex_, std::try_to_lock);
  auto found = Awaited::elsewhere;
  if (!lock) return Awaited::somewhere;
  for (const auto& part : parts_) {
    if (part->done) continue;
    const Awaited one = part->storage.get()->awaited();
    if (one == Awaited::here) return one;
    if (one == Awaited::somewhere) found = one;
  }
  return found;
}

bool WorkState::step_parts(long nanoseconds) {
  bool all = true;
  for (const auto& part : parts_) {
    if (!part->done) step_part(*part, nanoseconds);
    all = all && part->done;
  }
  return all;
}

bool WorkState::step_part(WorkPart& part, long nanoseconds) {
  Operation& operation = *part.storage.get();
  if (group_->health().may_take_wrongly(part.request.get().type)) return false;
  const bool done = nanoseconds > 0 ? operation.park(nanoseconds) : operation.step();
  part.done = done && !group_->health().may_take_wrongly(part.request.get().type);
  if (part.done) {
    completed_parts_.fetch_add(1, std::memory_order_relaxed);
    group_->world().ring().set_ended(part.record_id, CallState::completed, false);
  }
  return part.done;
}

void WorkState::fail(std::exception_ptr error) {
  error = group_->health().explained(std::move(error), title());
  const auto failure = group_->health().describe_failure(error, title());
  // Before anything is taken back: what comes then must be nobody else's.
  if (must_abort_group(true)) group_->health().abort(failure);
  const bool clean = give_up_parts(failure.reason);
  if (must_abort_group(clean))
    group_->health().abort(failure);
  else
    group_->health().note_failed_message(failure);
  finish(Ended::badly, with_context(error, group_->members().context(title())));
}

bool WorkState::give_up_parts(const std::string& reason) {
  bool clean = true;
  if (group_->health().is_aborted()) group_->health().note_given_up();
  for (std::size_t i = 0; i < started_parts_; ++i) {
    WorkPart& part = *parts_[i];
    if (part.done.exchange(true)) continue;
    group_->world().ring().set_ended(part.record_id, CallState::failed, false);
    std::unique_ptr<AbandonedOperation> abandoned = part.storage.get()->abandon(reason);
    clean = clean && abandoned == nullptr;
    group_->world().engine->keep(std::move(abandoned));
  }
  return clean;
}

void WorkState::finish(Ended how, std::exception_ptr error) {
  if (how == Ended::well) {
    for (const auto& part : parts_) {
      if (part->request.get().type != OpType::recv) continue;
      statuses_.push_back(group_->members().to_global(part->storage.get()->status()));
    }
  }
  error_ = std::move(error);
  for (const auto& part : parts_) group_->world().ring().set_retired(part->record_id);
  // Before the next one may end.
  if (group_->watch().is_watched()) [[unlikely]]
    group_->watch().note_ended(*this, error_);
  if (is_ordered()) group_->record().dequeue(*this, how == Ended::well);
  ended_.store(how, std::memory_order_release);
}

void WorkState::abandon(const std::string& reason) {
  {
    std::lock_guard lock(step_mutex_);
    if (is_completed()) return;
    group_->health().note_given_up();
    if (!give_up_parts(reason)) group_->world().life.mark_failed();
    finish(Ended::badly,
           std::make_exception_ptr(AbortedError(reason, group_->members().context(title()))));
  }
  conclude();
}

void WorkState::conclude() {
  const auto removed = group_->world().engine->remove(*this);
  settle_future();
  group_->watch().tell_ended();
}

void WorkState::require_driver() const {
  WorldContext& world = group_->world();
  // Asked here first: a context is words, which cost more than the rest of a small call.
  if (is_completed()) return;
  if (world.life.is_copied()) world.life.require_here(group_->members().context(title()));
  if (world.engine->has_own_thread() || world.life.may_end_works()) return;
  world.life.require_drive(group_->members().context(title()));
}

bool WorkState::test() {
  require_driver();
  // Others may wait for what is not being waited for here.
  if (!is_completed() && !(group_->world().life.may_drive() && step()))
    group_->world().engine->step_some();
  return is_completed();
}

void WorkState::add_waiter() {
  if (waiters_.fetch_add(1) != 0) return;
  for (const auto& part : parts_) group_->world().ring().set_waited_for(part->record_id, true);
}

void WorkState::remove_waiter() {
  if (waiters_.fetch_sub(1) != 1 || is_completed()) return;
  // Another may come meanwhile: what is recorded last is what holds.
  bool waited_for = true;
  do {
    waited_for = waiters_.load() != 0;
    for (const auto& part : parts_)
      group_->world().ring().set_waited_for(part->record_id, waited_for);
  } while (waited_for != (waiters_.load() != 0));
}

void WorkState::wait(Timeout timeout) {
  WorldContext& world = group_->world();
  require_driver();
  const TimePoint began = world.clock().now();
  const Deadline deadline = Deadline::after(timeout, began);
  const bool has_waited = !is_completed();
  if (has_waited) add_waiter();
  if (timeout.is_set()) explicit_waiters_.fetch_add(1, std::memory_order_relaxed);
  // Of several parts all but one may be over after a step, and that one can park.
  if (world.life.may_end_works()) step();
  Waiter waiter(world.engine->oversubscription(), can_park());
  bool expired = false;
  while (!is_completed()) {
    // With nothing else to move forward it may sleep until a peer has done something.
    const bool parks = waiter.is_sleepy() && can_park() && world.engine->has_one() &&
                       !world.engine->has_own_thread();
    if (world.life.may_end_works() && step(parks ? waiter.next_park() : 0)) break;
    const bool all_stepped = parks || world.engine->has_one() || world.engine->step_some();
    if (is_completed()) break;
    const TimePoint now = world.clock().now();
    expired = timeout.is_set() && deadline.expired(now) && !(world.life.may_end_works() && step(0));
    if (expired) break;
    if (!parks && (all_stepped || !waiter.is_sleepy())) waiter.pause([this] { return awaited(); });
  }
  if (timeout.is_set()) {
    explicit_waiters_.fetch_sub(1, std::memory_order_relaxed);
    set_seen_to(false);
  }
  if (has_waited) remove_waiter();
  if (group_->watch().is_watched()) [[unlikely]]
    group_->watch().note_waited(*this, world.clock().now() - began);
  if (expired && world.settings.config.blocking_wait)
    fail_waiting(world.clock().now() - began, timeout);
  else if (expired)
    std::rethrow_exception(
        group_->inquiry().timeout_error(pending(), world.clock().now() - began, timeout, false));
  if (error_) std::rethrow_exception(error_);
}

bool WorkState::is_enqueued() const {
  return is_completed() || std::all_of(parts_.begin(), parts_.end(), [](const auto& part) {
           return part->done || part->storage.get()->is_enqueued();
         });
}

void WorkState::await_enqueued() {
  ProgressEngine& engine = *group_->world().engine;
  Waiter waiter(engine.oversubscription());
  while (true) {
    {
      std::lock_guard lock(step_mutex_);
      if (is_enqueued()) break;
    }
    // Others may have to go first; its own limit is looked at in its steps.
    const bool all_stepped = step() || engine.step_some();
    if (all_stepped || !waiter.is_sleepy()) waiter.pause();
  }
  if (is_completed() && error_) std::rethrow_exception(error_);
}

void WorkState::wait_on(void* stream) {
  require_driver();
  try {
    require_own_stream(stream, group_->means().reach);
  } catch (...) {
    rethrow_with(group_->members().context(title()));
  }
  await_enqueued();
  {
    std::lock_guard lock(step_mutex_);
    if (is_completed()) return;
    if (std::all_of(parts_.begin(), parts_.end(),
                    [](const auto& part) { return part->storage.get()->can_let_wait(); })) {
      for (const auto& part : parts_)
        if (!part->done) part->storage.get()->let_wait(stream);
      return;
    }
  }
  wait({});
}

// HYMN_BLOCKING_WAIT: the patience of who waits is the operation's limit.
void WorkState::fail_waiting(Duration waited, Timeout limit) {
  auto error = group_->inquiry().timeout_error(pending(), waited, limit);
  {
    std::lock_guard lock(step_mutex_);
    if (!is_completed()) fail(std::move(error));
  }
  conclude();
}

std::exception_ptr WorkState::error() const { return is_completed() ? error_ : nullptr; }

std::vector<BufferView> WorkState::result() const {
  if (!is_completed())
    throw UsageError("there is no result yet",
                     merged_context("wait() first", group_->members().context(title())));
  if (error_) std::rethrow_exception(error_);
  std::vector<BufferView> written;
  for (const auto& part : parts_) {
    const auto views = part->request.get().outputs.views();
    written.insert(written.end(), views.begin(), views.end());
  }
  return written;
}

std::vector<RecvStatus> WorkState::statuses() const {
  if (!is_completed())
    throw UsageError("there is no status yet",
                     merged_context("wait() first", group_->members().context(title())));
  if (error_) std::rethrow_exception(error_);
  return statuses_;
}

ErrorContext WorkState::merged_context(std::string remedy, ErrorContext context) {
  context.remedy = std::move(remedy);
  return context;
}

Future<std::vector<BufferView>> WorkState::future(const std::shared_ptr<WorkState>& self) {
  std::shared_ptr<FutureState<std::vector<BufferView>>> state;
  {
    std::lock_guard lock(future_mutex_);
    if (!future_ && !is_completed()) {
      future_ = std::make_shared<FutureState<std::vector<BufferView>>>(
          [self](Timeout timeout) { self->wait(timeout); });
    }
    state = future_;
  }
  if (!state) {
    state = std::make_shared<FutureState<std::vector<BufferView>>>(Drive());
    settle(*state);
  }
  return Future<std::vector<BufferView>>(state);
}

void WorkState::settle_future() {
  std::shared_ptr<FutureState<std::vector<BufferView>>> state;
  {
    // The future keeps this work alive to wait for it: let go, or neither would ever die.
    std::lock_guard lock(future_mutex_);
    state = std::exchange(future_, nullptr);
  }
  const CallbackScope scope;
  if (state) settle(*state);
}

void WorkState::settle(FutureState<std::vector<BufferView>>& state) const {
  if (error_)
    state.set_error(error_);
  else
    state.set_value(result());
}

}  // namespace hymn::detail
