#include "runtime/group/group_state.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error_context.hpp"
#include "base/waiter.hpp"
#include "collectives/plain_request.hpp"
#include "collectives/validate.hpp"
#include "runtime/group/blocked_call.hpp"
#include "runtime/group/call_title.hpp"
#include "runtime/group/observed.hpp"
#include "runtime/group/work_starter.hpp"

namespace hymn::detail {
namespace {

// What is wrong with a call itself is told first, whoever else has gone.
void require_support(Selector& selector, const GroupMembers& members, const Request& request) {
  try {
    (void)selector.pick(request);
  } catch (const UnsupportedError&) {
    rethrow_with(members.context(std::string(to_string(request.type))));
  }
}

/// When a thread that waits has to do what WorldSettings::meanwhile wants.
class OthersTurn {
 public:
  explicit OthersTurn(void (*meanwhile)()) : meanwhile_(meanwhile) {}
  void take(TimePoint now) {
    if (meanwhile_ == nullptr || now < next_) return;
    meanwhile_();
    next_ = now + between;
  }
  /// How long it may sleep.
  long shortened(long nanoseconds) const {
    constexpr long longest = 200'000;
    return meanwhile_ == nullptr ? nanoseconds : std::min(nanoseconds, longest);
  }

 private:
  static constexpr Duration between = std::chrono::microseconds(5);
  void (*meanwhile_)();
  TimePoint next_{};
};

Timeout default_limit(const WorldSettings& settings, const GroupMeans& means) {
  return means.on_gpus ? settings.gpu_timeout : settings.default_timeout;
}

void warn_of_ignored(const GroupOptions& options, const GroupMembers& members,
                     const Logger& logger) {
  if (options.nccl.timeout.is_set() && !options.timeout.is_set())
    logger.warning(
        fmt::format("the timeout in the NCCL options of group '{}' is ignored; remedy: give it as "
                    "GroupOptions::timeout",
                    members.label()));
}

}  // namespace

GroupState::GroupState(std::shared_ptr<WorldContext> world, Membership membership,
                       GroupOptions options, GroupMeans means)
    : world_(std::move(world)),
      options_(std::move(options)),
      members_(std::move(membership), options_.description, world_->rank()),
      means_(std::move(means)),
      timeout_(options_.timeout.or_else(default_limit(world_->settings, means_))),
      record_(members_.uid(), world_->ring(),
              world_->recorder.take_line(members_.uid(), members_.description(), members_.ranks(),
                                         members_.is_member())),
      watch_(*world_, members_, options_),
      agreement_(*world_, members_, record_, watch_),
      health_(*world_, members_, record_, agreement_),
      inquiry_(*world_, members_),
      gpu_(*world_, members_, health_, means_.reach),
      checks_({*world_, members_, means_, record_, watch_, inquiry_, gpu_, health_}),
      buffers_(*world_, members_, means_, record_, gpu_, health_) {
  warn_of_ignored(options_, members_, world_->logger);
  record_.show_timeout(timeout());
  world_->registry.add(members_.membership(), members_.label(), members_.description(),
                       record_.line());
}

GroupState::~GroupState() {
  try {
    destroy();
  } catch (const std::exception& error) {
    world_->logger.warning(fmt::format("ending a group: {}", error.what()));
  }
  world_->groups.forget_group(*this);
  world_->registry.ended(members_.uid());
}

void GroupState::set_timeout(Timeout timeout) {
  world_->life.require_here(members_.context("set_timeout"));
  if (!timeout.is_set())
    throw UsageError("the timeout to set is unset", members_.context("set_timeout"));
  timeout_.store(timeout);
  record_.show_timeout(timeout);
}

Timeout GroupState::limit_of(const CallOptions& options) const {
  return options.timeout.is_set() ? options.timeout : timeout();
}

bool GroupState::admit(OpType type) {
  require_living(type);
  if (members_.is_member()) [[likely]]
    return true;
  world_->logger.warning(members_.outside_warning(type));
  return false;
}

void GroupState::require_living(OpType type) {
  if (health_.is_destroyed() || world_->life.is_destroyed()) [[unlikely]] {
    world_->life.require_here(members_.context(std::string(to_string(type))));
    throw UsageError("the group has been destroyed",
                     members_.context(std::string(to_string(type))));
  }
  if (members_.is_member() && !world_->life.may_drive()) [[unlikely]]
    world_->life.require_drive(members_.context(std::string(to_string(type))));
  if (health_.is_aborted()) [[unlikely]]
    std::rethrow_exception(health_.aborted_error(std::string(to_string(type))));
}

void GroupState::require_members(OpType type, const Asked* asked) {
  const std::string name(to_string(type));
  if (health_.is_aborted()) std::rethrow_exception(health_.aborted_error(name));
  const std::optional<GroupFailure> failure = health_.find_lack(type);
  if (!failure) return;
  if (asked != nullptr) require_support(*means_.selector, members_, asked->request);
  std::optional<std::uint64_t> record_id;
  if (asked != nullptr)
    record_id = record_.add_refused(asked->request, asked->site, limit_of(asked->options));
  health_.abort(*failure);
  if (record_id) world_->ring().set_ended(*record_id, CallState::failed, true);
  std::rethrow_exception(health_.aborted_error(name));
}

const Request& GroupState::checked(const Request& request, std::shared_ptr<const Request>& matched,
                                   int& peer, ToItself to_itself) const {
  try {
    if (request.type == OpType::all_gather) matched = match_complex_views(request);
    const Request& used = matched ? *matched : request;
    peer = members_.peer_of(used, to_itself);
    // Without a GPU this costs a branch: then no pointer has to be asked for.
    MemoryQuery* const memory = world_->settings.memory;
    if (memory == nullptr && used.domain.kind == OrderingDomain::Kind::host &&
        is_plainly_right(used, members_.shape(), peer))
      return used;
    validate(used, members_.shape(), peer);
    auto located = locate(used, members_.shape().rank == peer, memory, means_.reach);
    if (located) matched = std::move(located);
    return matched ? *matched : request;
  } catch (...) {
    rethrow_with(members_.context(std::string(to_string(request.type))));
  }
}

RecvStatus GroupState::run(const Request& request, const CallOptions& options,
                           const void* returns_to, const ReadyCall& ready) {
  const void* const site = site_of(options, returns_to);
  if (works_.scopes().are_open() && WorkStarter(*this, options, site).capture({&request, 1}))
      [[unlikely]]
    return {};
  return works_.ending_what_is_given_up(
      [&] { return run_to_its_end(request, options, site, ready); });
}

RecvStatus GroupState::run_to_its_end(const Request& given, const CallOptions& options,
                                      const void* site, const ReadyCall& ready) {
  if (options.stream != nullptr) [[unlikely]] {
    WorkStarter(*this, options, site).start(given);
    return {};
  }
  const Asked asked{given, options, site};
  if (!admit(given.type)) return {};
  Call call;
  std::shared_ptr<const Request> matched;
  if (ready.algorithm != nullptr) call.peer = ready.peer;
  const Request& request = ready.algorithm != nullptr ? given : checked(given, matched, call.peer);
  if (!health_.is_sound()) [[unlikely]]
    require_members(given.type, &asked);
  call.request = &request;
  call.sequence = record_.next_sequence(request.type);
  call.order = record_.next_order();
  OperationStorage storage;
  Algorithm& algorithm = prepare(storage, call, ready.algorithm);
  if (CallObserver* const observer = call_observer()) [[unlikely]]
    tell_observer(*observer, members_, {&given, 1}, CallForm::blocks);
  WatchedCall watched;
  try {
    if (watch_.is_watched()) [[unlikely]]
      watched = checks_.examine(
          call, algorithm,
          {.site = site, .limit = limit_of(options), .may_send_nan = ready.may_send_nan});
    if (matched) [[unlikely]]
      gpu_.await_ready(*storage.get(), call, limit_of(options));
  } catch (...) {
    checks_.end_meeting(request.type);
    throw;
  }
  call.sequence = record_.take_sequence(request.type, algorithm);
  CallRing& ring = world_->ring();
  const std::uint64_t record_id = ring.claim();
  const CallContext note{site, limit_of(options), ring.timing() ? time_stamp() : 0};
  auto ended = CallRing::Ended::now;
  try {
    Operation& operation = *storage.get();
    if (means_.blocks && note.limit.is_none() && operation.can_block()) {
      record_.fill(record_id, request, call, &algorithm, note);
      world_->engine->finish_what_peers_need();
      operation.run();
    } else {
      operation.start();
      // While what it sent is on its way.
      record_.fill(record_id, request, call, &algorithm, note);
      if (operation.step() || !drive(operation, note.limit, SingleCall(call)))
        if (note.started == 0) ended = CallRing::Ended::at_once;
      if (health_.may_take_wrongly(request.type)) [[unlikely]]
        std::rethrow_exception(health_.aborted_error(title_of(call)));
    }
  } catch (...) {
    // It may have failed before there was time for it; a second time changes nothing.
    record_.fill(record_id, request, call, &algorithm, note);
    ring.set_ended(record_id, CallState::failed, true);
    const auto error = given_up(*storage.get(), pending_of(call));
    if (watched.is_on) watch_.note_ended(call, watched, error);
    std::rethrow_exception(error);
  }
  ring.set_ended(record_id, CallState::completed, true, ended);
  if (is_collective(request.type)) record_.note_completed(call.sequence);
  if (watched.is_on) [[unlikely]]
    watch_.note_ended(call, watched, nullptr);
  return awaits_message(request.type) ? members_.to_global(storage.get()->status()) : RecvStatus{};
}

Algorithm& GroupState::prepare(OperationStorage& storage, const Call& call, Algorithm* chosen) {
  try {
    Algorithm& algorithm = chosen != nullptr ? *chosen : means_.selector->pick(*call.request);
    algorithm.prepare(storage, call);
    return algorithm;
  } catch (...) {
    rethrow_with(members_.context(title_of(call)));
  }
}

bool GroupState::drive(Operation& operation, Timeout limit, const BlockedCall& call) {
  const Clock& clock = world_->clock();
  ProgressEngine& engine = *world_->engine;
  Waiter waiter(engine.oversubscription(), operation.can_park());
  // The clock costs as much as a step of a small operation: it is looked at for the first time when
  // the operation has not completed at once, then now and then, and always before a long pause.
  constexpr unsigned first_look = 16;
  constexpr unsigned turns_between_polls = 32;
  TimePoint began{};
  Deadline deadline = Deadline::never();
  OthersTurn others(world_->settings.meanwhile);
  bool is_done = false;
  const auto step = [&] { return is_done = operation.step(); };
  for (unsigned turn = 1;; ++turn) {
    if (!health_.is_sound()) [[unlikely]] {
      if (auto error = call.hopeless(health_, step)) std::rethrow_exception(error);
      if (is_done) return true;
    }
    if (turn == first_look) {
      began = clock.now();
      if (!limit.is_none()) deadline = Deadline::after(limit, began);
    }
    if (turn % turns_between_polls == 0 || waiter.is_sleepy()) {
      const TimePoint now = clock.now();
      others.take(now);
      if (deadline.expired(now)) {
        if (step()) return true;
        std::rethrow_exception(inquiry_.timeout_error(call.pending(), now - began, limit));
      }
      if (!world_->life.is_open()) [[unlikely]] {
        if (auto error = call.hopeless(health_, step)) std::rethrow_exception(error);
        return true;
      }
      if (turn > first_look && is_collective(call.type()))
        if (auto error = agreement_.look_for_other_calls(began, now)) std::rethrow_exception(error);
    }
    const bool parks = engine.is_idle() && waiter.is_sleepy() && operation.can_park();
    RoundTime time(turn % turns_between_polls == 0 || waiter.is_sleepy() ? RoundTime::Look::yes
                                                                         : RoundTime::Look::no);
    const bool all_stepped = engine.is_idle() || engine.step_some(time);
    if (!parks && (all_stepped || !waiter.is_sleepy()))
      waiter.pause([&operation] { return operation.awaited(); });
    if (parks ? operation.park(others.shortened(waiter.next_park())) : operation.step())
      return turn >= first_look || engine.oversubscribed();
  }
}

std::exception_ptr GroupState::given_up(Operation& operation, const PendingOp& op) {
  const std::string title = title_of(op);
  // What it has failed of may have been meant for a receive before it, which was given up.
  const bool is_own = !health_.is_aborted() || !health_.may_take_wrongly(op.type);
  std::exception_ptr error =
      is_own ? health_.explained(std::current_exception(), title) : health_.aborted_error(title);
  const GroupFailure failure = health_.describe_failure(error, title);
  const bool concerns_all = is_collective(op.type) || health_.has_failed_members();
  // Before anything is taken back: what comes then must be nobody else's.
  if (concerns_all) health_.abort(failure);
  if (health_.is_aborted()) health_.note_given_up();
  std::unique_ptr<AbandonedOperation> abandoned = operation.abandon(failure.reason);
  const bool clean = abandoned == nullptr;
  world_->engine->keep(std::move(abandoned));
  if (concerns_all || !clean)
    health_.abort(failure);
  else
    health_.note_failed_message(failure);
  works_.end_given_up();
  return with_context(error, members_.context(title));
}

Explanation GroupState::explain(const Request& given) const {
  if (!members_.is_member())
    throw UsageError(
        fmt::format("rank {} is not part of group '{}'", world_->rank(), members_.label()),
        members_.context("explain"));
  int peer = -1;
  std::shared_ptr<const Request> matched;
  return means_.selector->explain(checked(given, matched, peer));
}

void GroupState::destroy() {
  if (world_->life.is_copied() || !health_.begin_to_end()) return;
  record_.line().flags.fetch_or(GroupLine::ended, std::memory_order_acq_rel);
  if (members_.is_member()) {
    const bool drained = works_.drain();
    watch_.end_hooks(timeout());
    world_->groups.group_ended(*this, drained && !health_.is_aborted());
  }
}

}  // namespace hymn::detail
