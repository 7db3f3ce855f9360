#include "runtime/group/group_state.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error_context.hpp"
#include "base/waiter.hpp"
#include "collectives/plain_request.hpp"
#include "collectives/validate.hpp"
#include "runtime/group/work_state.hpp"
#include "runtime/group/world_context.hpp"

namespace hymn::detail {

GroupState::GroupState(std::shared_ptr<WorldContext> world, Membership membership,
                       GroupOptions options, Means means, bool blocks)
    : world_(std::move(world)),
      membership_(std::move(membership)),
      options_(std::move(options)),
      description_(options_.description.empty() ? "undefined" : options_.description),
      shape_(shape_of(membership_, world_->rank())),
      means_(std::move(means)),
      blocks_(blocks),
      timeout_(options_.timeout.or_else(world_->settings.default_timeout)),
      gone_(membership_.uid, shape_.rank, shape_.size),
      watch_(watch_from(options_)) {
  line_ = world_->recorder.take_line(membership_.uid, description_, membership_.ranks, is_member());
  show_timeout();
  world_->registry.add(membership_, label(), description_, *line_);
}

GroupShape GroupState::shape_of(const Membership& membership, int rank) {
  const auto& ranks = membership.ranks;
  const auto found = std::lower_bound(ranks.begin(), ranks.end(), rank);
  const bool member = found != ranks.end() && *found == rank;
  return {member ? static_cast<int>(found - ranks.begin()) : -1, static_cast<int>(ranks.size())};
}

GroupState::~GroupState() {
  try {
    destroy();
  } catch (const std::exception& error) {
    world_->logger.warning(fmt::format("ending a group: {}", error.what()));
  }
  world_->groups.forget_group(*this);
  world_->registry.ended(membership_.uid);
}

int GroupState::global_rank(int group_rank) const {
  if (group_rank < 0 || group_rank >= shape_.size)
    throw UsageError(fmt::format("group rank {} is not part of group '{}' of {} ranks", group_rank,
                                 label(), shape_.size),
                     context("global_rank"));
  return membership_.ranks[static_cast<std::size_t>(group_rank)];
}

// Not an optional: GCC returns one through memory, in a way that stalls each call for 10 ns.
int GroupState::find_rank(int global_rank) const {
  const auto& ranks = membership_.ranks;
  // Mostly a group has all ranks, or the first so many.
  const auto index = static_cast<std::size_t>(global_rank);
  if (index < ranks.size() && ranks[index] == global_rank) return global_rank;
  const auto found = std::lower_bound(ranks.begin(), ranks.end(), global_rank);
  if (found == ranks.end() || *found != global_rank) return -1;
  return static_cast<int>(found - ranks.begin());
}

int GroupState::group_rank(int global_rank) const {
  const int found = find_rank(global_rank);
  if (found < 0)
    throw UsageError(fmt::format("global rank {} is not part of group '{}' of ranks [{}]",
                                 global_rank, label(), fmt::join(membership_.ranks, ", ")),
                     context("group_rank"));
  return found;
}

void GroupState::set_timeout(Timeout timeout) {
  world_->life.require_here(context("set_timeout"));
  if (!timeout.is_set()) throw UsageError("the timeout to set is unset", context("set_timeout"));
  timeout_.store(timeout);
  show_timeout();
}

// --- Before anything is sent
// --------------------------------------------------------------------------

bool GroupState::admit(OpType type) {
  if (is_destroyed() || world_->life.is_destroyed()) [[unlikely]] {
    world_->life.require_here(context(std::string(to_string(type))));
    throw UsageError("the group has been destroyed", context(std::string(to_string(type))));
  }
  if (is_member() && !world_->life.may_drive()) [[unlikely]]
    world_->life.require_drive(context(std::string(to_string(type))));
  if (is_aborted()) [[unlikely]]
    std::rethrow_exception(aborted_error(std::string(to_string(type))));
  if (is_member()) return true;
  world_->logger.warning(fmt::format("{} on group '{}' is ignored: rank {} is not a member of it",
                                     to_string(type), label(), world_->rank()));
  return false;
}

int GroupState::peer_of(const Request& request) const {
  const bool is_p2p = !is_collective(request.type);
  if (!is_p2p && !has_root(request.type)) return -1;
  if (request.type == OpType::recv && request.peer == any_source) return any_source;
  const int peer = find_rank(request.peer);
  if (peer < 0)
    throw UsageError(
        fmt::format("{} {} is not part of group '{}' of ranks [{}]", is_p2p ? "peer" : "root",
                    request.peer, label(), fmt::join(membership_.ranks, ", ")),
        {.remedy = "give a global rank that is a member of the group"});
  if (is_p2p && peer == shape_.rank)
    throw UsageError("a rank cannot send to, or receive from, itself",
                     {.remedy = "copy the buffer instead"});
  return peer;
}

const Request& GroupState::checked(const Request& request, std::shared_ptr<const Request>& matched,
                                   int& peer) const {
  try {
    if (request.type == OpType::all_gather) matched = match_complex_views(request);
    const Request& used = matched ? *matched : request;
    peer = peer_of(used);
    // Without a GPU this costs a branch: then no pointer has to be asked for.
    MemoryQuery* const memory = world_->settings.memory;
    if (memory == nullptr && used.domain.kind == OrderingDomain::Kind::host &&
        is_plainly_right(used, shape_, peer))
      return used;
    validate(used, shape_, peer);
    auto located = locate(used, shape_.rank == peer, memory, means_.reach);
    if (located) matched = std::move(located);
    return matched ? *matched : request;
  } catch (...) {
    rethrow_with(context(std::string(to_string(request.type))));
  }
}

Timeout GroupState::limit_of(const CallOptions& options) const {
  return options.timeout.is_set() ? options.timeout : timeout();
}

// --- Blocking calls
// -----------------------------------------------------------------------------------

RecvStatus GroupState::run(const Request& given, const CallOptions& options, const void* site) {
  if (options.stream != nullptr) [[unlikely]] {
    start(given, options, site);
    return {};
  }
  const Asked asked{given, options, site};
  if (!admit(given.type)) return {};
  Call call;
  std::shared_ptr<const Request> matched;
  const Request& request = checked(given, matched, call.peer);
  if (!is_sound()) [[unlikely]]
    require_members(given.type, &asked);
  call.request = &request;
  call.sequence = next_sequence(request.type);
  OperationStorage storage;
  Algorithm& algorithm = prepare(storage, call);
  WatchedCall watched;
  if (is_watched()) [[unlikely]]
    watched = examine(call, algorithm, {site, limit_of(options)});
  if (matched) [[unlikely]]
    await_ready(*storage.get(), call, limit_of(options));
  call.sequence = take_sequence(request.type, algorithm);
  CallRing& ring = world_->ring();
  const std::uint64_t record_id = ring.claim();
  const CallContext note{site, limit_of(options), ring.timing() ? time_stamp() : 0};
  auto ended = CallRing::Ended::now;
  try {
    Operation& operation = *storage.get();
    if (blocks_ && note.limit.is_none() && operation.can_block()) {
      fill_record(record_id, request, call, &algorithm, note);
      world_->engine->finish_what_peers_need();
      operation.run();
    } else {
      operation.start();
      // While what it sent is on its way.
      fill_record(record_id, request, call, &algorithm, note);
      if (operation.step() || !drive(operation, note.limit, call))
        if (note.started == 0) ended = CallRing::Ended::at_once;
      if (may_take_wrongly(request.type)) [[unlikely]]
        std::rethrow_exception(aborted_error(title(call)));
    }
  } catch (...) {
    // It may have failed before there was time for it; a second time changes nothing.
    fill_record(record_id, request, call, &algorithm, note);
    ring.set_ended(record_id, CallState::failed, true);
    give_up(*storage.get(), call, watched);
  }
  ring.set_ended(record_id, CallState::completed, true, ended);
  if (is_collective(request.type)) note_completed(call.sequence);
  if (watched.is_on) [[unlikely]]
    note_ended(call, watched, nullptr);
  return request.type == OpType::recv ? to_global(storage.get()->status()) : RecvStatus{};
}

Algorithm& GroupState::prepare(OperationStorage& storage, const Call& call) {
  try {
    Algorithm& algorithm = means_.selector->pick(*call.request);
    algorithm.prepare(storage, call);
    return algorithm;
  } catch (...) {
    rethrow_with(context(title(call)));
  }
}

bool GroupState::drive(Operation& operation, Timeout limit, const Call& call) {
  const Clock& clock = world_->clock();
  ProgressEngine& engine = *world_->engine;
  Waiter waiter(engine.oversubscription(), operation.can_park());
  // The clock costs as much as a step of a small operation: it is looked at for the first time when
  // the operation has not completed at once, then now and then, and always before a long pause.
  constexpr unsigned first_look = 16;
  constexpr unsigned turns_between_polls = 32;
  TimePoint began{};
  Deadline deadline = Deadline::never();
  bool is_done = false;
  const auto step = [&] { return is_done = operation.step(); };
  for (unsigned turn = 1;; ++turn) {
    if (!is_sound()) [[unlikely]] {
      if (auto error = hopeless(pending(call), step)) std::rethrow_exception(error);
      if (is_done) return true;
    }
    if (turn == first_look) {
      began = clock.now();
      if (!limit.is_none()) deadline = Deadline::after(limit, began);
    }
    if (turn % turns_between_polls == 0 || waiter.is_sleepy()) {
      const TimePoint now = clock.now();
      if (deadline.expired(now)) {
        if (step()) return true;
        std::rethrow_exception(timeout_error(pending(call), now - began, limit));
      }
      if (!world_->life.is_open()) [[unlikely]] {
        if (auto error = hopeless(pending(call), step)) std::rethrow_exception(error);
        return true;
      }
      if (turn > first_look && is_collective(call.request->type))
        if (auto error = look_for_other_calls(began, now)) std::rethrow_exception(error);
    }
    const bool parks = engine.is_idle() && waiter.is_sleepy() && operation.can_park();
    const bool all_stepped = engine.is_idle() || engine.step_some();
    if (!parks && (all_stepped || !waiter.is_sleepy()))
      waiter.pause([&operation] { return operation.awaited(); });
    if (parks ? operation.park(waiter.next_park()) : operation.step())
      return turn >= first_look || engine.oversubscribed();
  }
}

void GroupState::give_up(Operation& operation, const Call& call, const WatchedCall& watched) {
  std::exception_ptr error = explained(std::current_exception(), title(call));
  const GroupFailure failure = describe_failure(error, title(call));
  const bool concerns_all = is_collective(call.request->type) || has_failed_members();
  // Before anything is taken back: what comes then must be nobody else's.
  if (concerns_all) abort(failure);
  if (is_aborted()) note_given_up();
  std::unique_ptr<AbandonedOperation> abandoned = operation.abandon(failure.reason);
  const bool clean = abandoned == nullptr;
  world_->engine->keep(std::move(abandoned));
  if (concerns_all || !clean)
    abort(failure);
  else
    note_failed_message(failure);
  error = with_context(error, context(title(call)));
  if (watched.is_on) note_ended(call, watched, error);
  std::rethrow_exception(error);
}

// --- Asynchronous calls
// -------------------------------------------------------------------------------

std::shared_ptr<WorkState> GroupState::start(const Request& request, const CallOptions& options,
                                             const void* site) {
  const Asked asked{request, options, site};
  const bool member = admit(request.type);
  const std::uint64_t sequence = next_sequence(request.type);
  auto work =
      std::make_shared<WorkState>(shared_from_this(), limit_of(options), request.type, sequence);
  if (member) {
    add_part(*work, ordered_by(request, options));
    prepare_parts(*work, &asked);
  }
  launch(work, {.site = site, .limit = limit_of(options), .in_background = true});
  if (options.stream != nullptr) work->await_enqueued();
  return work;
}

// What stays in order with a stream says so itself, for it outlives the call.
Request GroupState::ordered_by(const Request& request, const CallOptions& options) {
  Request ordered = request;
  if (options.stream != nullptr) ordered.domain = {OrderingDomain::Kind::stream, options.stream};
  return ordered;
}

std::shared_ptr<WorkState> GroupState::start_batch(std::span<const P2POp> operations,
                                                   const CallOptions& options, const void* site) {
  std::vector<Request> requests;
  for (const P2POp& operation : operations) {
    requests.push_back(operation.request);
    if (!is_message(operation.request.type))
      throw UsageError(fmt::format("a batch holds sends and receives, not {}",
                                   to_string(operation.request.type)),
                       context("batch"));
  }
  return start_together(OpType::batch, requests, options, site);
}

std::shared_ptr<WorkState> GroupState::start_coalesced(std::span<const Request> requests,
                                                       const CallOptions& options,
                                                       const void* site) {
  if (requests.empty())
    throw UsageError("there is nothing to coalesce", context("start_coalesced"));
  const OpType type = requests.front().type;
  for (const Request& request : requests)
    if (!is_collective(request.type) || request.type != type)
      throw UsageError(fmt::format("collectives of one kind can be coalesced, but not {} and {}",
                                   to_string(type), to_string(request.type)),
                       context("start_coalesced"));
  return start_together(type, requests, options, site);
}

std::shared_ptr<WorkState> GroupState::start_together(OpType type,
                                                      std::span<const Request> requests,
                                                      const CallOptions& options,
                                                      const void* site) {
  const bool member = admit(type);
  auto work =
      std::make_shared<WorkState>(shared_from_this(), limit_of(options), type, next_sequence(type));
  if (member) {
    for (const Request& request : requests) add_part(*work, ordered_by(request, options));
    prepare_parts(*work, nullptr);
  }
  if (is_collective(type)) work->coalesce();
  launch(work, {.site = site, .limit = limit_of(options), .in_background = true});
  if (options.stream != nullptr) work->await_enqueued();
  return work;
}

void GroupState::add_part(WorkState& work, const Request& given) {
  int peer = -1;
  std::shared_ptr<const Request> matched;
  auto part = std::make_unique<WorkPart>(checked(given, matched, peer));
  part->call.request = &part->request.get();
  part->call.peer = peer;
  part->call.sequence = next_sequence(given.type) + work.parts().size();
  work.parts().push_back(std::move(part));
}

// All of them are right by themselves: only now a member that is gone may be the end of the group.
void GroupState::prepare_parts(WorkState& work, const Asked* asked) {
  if (!is_sound()) [[unlikely]]
    require_members(work.type(), asked);
  for (const auto& part : work.parts()) part->algorithm = &prepare(part->storage, part->call);
}

void GroupState::launch(const std::shared_ptr<WorkState>& work, const CallContext& note) {
  if (is_watched()) [[unlikely]]
    for (const auto& part : work->parts()) examine_part(part->call, note);
  for (const auto& part : work->parts()) await_ready(*part->storage.get(), part->call, note.limit);
  for (const auto& part : work->parts()) {
    part->call.sequence = take_sequence(part->call.request->type, *part->algorithm);
    part->record_id = world_->ring().claim();
    fill_record(part->record_id, *part->call.request, part->call, part->algorithm, note);
  }
  if (work->is_ordered() && is_member()) enqueue(*work);
  try {
    work->start();
  } catch (...) {
    if (work->is_ordered()) dequeue(*work, false);
    throw;
  }
  // Nothing to do on a rank outside the group: complete at once.
  if (!is_member() || work->parts().empty()) {
    work->step();
    return;
  }
  world_->engine->add(work);
}

// --- End
// ---------------------------------------------------------------------------------------------

Explanation GroupState::explain(const Request& given) const {
  if (!is_member())
    throw UsageError(fmt::format("rank {} is not part of group '{}'", world_->rank(), label()),
                     context("explain"));
  int peer = -1;
  std::shared_ptr<const Request> matched;
  return means_.selector->explain(checked(given, matched, peer));
}

void GroupState::require_stream(void* stream, const std::string& operation) const {
  try {
    require_own_stream(stream, means_.reach);
  } catch (...) {
    rethrow_with(context(operation));
  }
}

}  // namespace hymn::detail
