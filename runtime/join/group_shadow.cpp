#include "runtime/join/group_shadow.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/keep_for_ever.hpp"
#include "base/patience.hpp"
#include "runtime/group/world_context.hpp"

namespace hymn::detail {
namespace {

// Few calls are in flight at a time.
constexpr std::size_t most_spare = 4;

}  // namespace

GroupShadow::GroupShadow(ProcessGroup group, const ShadowOptions& options)
    : group_(std::move(group)), state_(GroupState::of(group_)), options_(options) {
  require_free();
  require_support();
  WorldContext& world = state_->world();
  const Membership& membership = state_->members().membership();
  readable_ = std::make_unique<ReadableMembers>(membership.uid);
  asked_ = std::make_unique<AskedMembers>(world.peers.agent(), world.clock(), membership.uid);
  for (const int rank : membership.ranks) {
    if (rank == world.rank()) continue;
    if (const auto view = world.records.of(rank))
      readable_->add(rank, *view);
    else
      asked_->add(rank);
  }
  round_ = state_->record().line().joins.load(std::memory_order_relaxed) + 1;
}

GroupShadow::~GroupShadow() {
  if (in_flight_.empty()) return;
  // MPI or NCCL may read and write them for nobody knows how long: they are kept for good.
  for (InFlight& one : in_flight_)
    keep_for_ever(std::pair(std::move(one.calls), std::move(one.on_gpu)));
}

void GroupShadow::require_free() {
  ErrorContext where = state_->members().context("shadow_all");
  state_->world().life.require_drive(where);
  if (state_->health().is_destroyed())
    throw UsageError("the group has been destroyed", std::move(where));
  where.remedy = "give each group once, and to no other shadow_all within the body";
  if (!state_->record().begin_shadow())
    throw UsageError("a group takes part in shadow_all twice at the same time", std::move(where));
  begun_.reset(state_);
}

void GroupShadow::require_support() const {
  const auto refuse = [this](const char* why, const char* remedy) {
    ErrorContext where = state_->members().context("shadow_all");
    where.remedy = remedy;
    throw UnsupportedError(why, std::move(where));
  };
  if (state_->members().membership().ranks.size() == 1) return;
  if (!state_->world().ring().is_on())
    refuse("there is no flight recorder, by which ranks see what the others call",
           "leave HYMN_RECORDER_SIZE on, or use joinables");
  if (state_->world().peers.agent() == nullptr)
    refuse("there is no control plane, by which ranks see what the others call",
           "leave HYMN_CONTROL on, or use joinables");
  if (state_->world().settings.checks == CheckLevel::detail)
    refuse("with checks of level detail a call meets the others before it is recorded",
           "use HYMN_CHECKS=info, or joinables");
  if (state_->means().blocks)
    refuse("the group was made to use MPI's blocking calls, which no other form of a call matches",
           "make it with a limit of time, or use joinables");
}

void GroupShadow::join() {
  GroupLine& line = state_->record().line();
  line.joined_at.store(state_->record().collective_sequence(), std::memory_order_relaxed);
  line.joins.store(round_, std::memory_order_release);
  line.flags.fetch_or(GroupLine::shadows, std::memory_order_acq_rel);
}

// A failure leaves the mark, for dumps that come later.
Work GroupShadow::part() {
  state_->record().line().flags.fetch_and(~GroupLine::shadows, std::memory_order_acq_rel);
  return group_.barrier_async();
}

template <class Visit>
void GroupShadow::for_each_other(Visit&& visit) const {
  for (const ShadowSource* source : {static_cast<const ShadowSource*>(readable_.get()),
                                     static_cast<const ShadowSource*>(asked_.get())})
    for (const ShadowedMember& other : source->members()) visit(other);
}

std::optional<std::uint64_t> GroupShadow::total() const {
  std::uint64_t most = state_->record().line().joined_at.load(std::memory_order_relaxed);
  bool all = true;
  for_each_other([&](const ShadowedMember& other) {
    const auto joined_at = other.joined_at(round_);
    all = all && joined_at;
    most = std::max(most, joined_at.value_or(0));
  });
  return all ? std::optional(most) : std::nullopt;
}

std::optional<MadeCall> GroupShadow::find(std::uint64_t next) {
  MadeCall made{.all = std::vector<const SeenCall*>(state_->members().membership().ranks.size())};
  int lost = -1;
  int silent = -1;
  bool lacks = false;
  for_each_other([&](const ShadowedMember& other) {
    // What those call that have run out may belong to what comes after the join.
    if (!other.makes(next, round_)) return;
    const SeenCall* const call = other.find(next);
    if (other.has_lost(next)) lost = other.rank();
    if (other.is_silent()) silent = other.rank();
    lacks = lacks || call == nullptr;
    if (call == nullptr) return;
    made.all[static_cast<std::size_t>(group_.group_rank(other.rank()))] = call;
    if (made.one == nullptr || tells_blocks(*call)) made.one = call;
  });
  if (made.one != nullptr && depends_on_all(*made.one)) wanted_ = Wanted::all;
  const bool is_enough = made.one != nullptr && !(wanted_ == Wanted::all && lacks);
  if (is_enough) return made;
  if (lost >= 0) refuse_lost(lost, next);
  if (silent >= 0) refuse_silent(silent);
  return std::nullopt;
}

void GroupShadow::refuse_lost(int rank, std::uint64_t next) const {
  throw ResourceError(
      fmt::format("rank {} has made so many calls that its record of collective #{} is "
                  "overwritten",
                  rank, next),
      {.remedy = "let fewer calls be in flight, or raise HYMN_RECORDER_SIZE"});
}

void GroupShadow::look(std::uint64_t next) {
  readable_->look(next, round_, wanted_);
  // Who still has input makes all collectives of the group: one that can be seen is enough.
  const auto makes = [&](const ShadowedMember& member) { return member.makes(next, round_); };
  if (wanted_ == Wanted::any && std::ranges::any_of(readable_->members(), makes)) return;
  asked_->look(next, round_, wanted_);
}

bool GroupShadow::retire() {
  bool any = false;
  while (!in_flight_.empty() && in_flight_.front().work.test()) {
    if (const auto error = in_flight_.front().work.error()) std::rethrow_exception(error);
    for (const auto& call : in_flight_.front().calls)
      if (spare_.size() < most_spare) spare_.push_back(call->take_memory());
    if (in_flight_.front().on_gpu) in_flight_.front().on_gpu->give_back(spare_on_gpu_);
    in_flight_.pop_front();
    any = true;
  }
  return any;
}

bool GroupShadow::follow() {
  if (ended_) return false;
  const bool retired = retire();
  const std::uint64_t next = state_->record().collective_sequence() + 1;
  look(next);
  if (const auto made = find(next)) {
    start(*made);
    return true;
  }
  if (const auto all = total(); all && *all < next) {
    ended_ = in_flight_.empty();
    return retired || ended_;
  }
  return retired;
}

void GroupShadow::refuse_silent(int rank) const {
  ErrorContext where = state_->members().context("shadow_all");
  where.remedy = "set HYMN_RECORDER_SIZE alike on all ranks, or use joinables";
  throw UnsupportedError(fmt::format("{} keeps no records of its calls that could be shadowed",
                                     state_->world().peers.name_of(rank)),
                         std::move(where));
}

std::unique_ptr<ShadowCall> GroupShadow::shadow_of(const MadeCall& made) {
  ShadowMemory memory;
  if (!spare_.empty()) {
    memory = std::move(spare_.back());
    spare_.pop_back();
  }
  return std::make_unique<ShadowCall>(made, state_->world().rank(), state_->members().shape(),
                                      options_, std::move(memory));
}

void GroupShadow::start(const MadeCall& made) {
  if (made.one->coalesced) {
    start_coalesced(*made.one);
  } else {
    auto call = shadow_of(made);
    std::unique_ptr<ShadowOnGpu> on_gpu;
    if (made.one->on_gpu && state_->means().reach.gpu)
      on_gpu =
          std::make_unique<ShadowOnGpu>(call->request(), state_->means().reach.gpu, spare_on_gpu_);
    const Request& request = on_gpu ? on_gpu->request() : call->request();
    InFlight& started = in_flight_.emplace_back();
    started.calls.push_back(std::move(call));
    started.on_gpu = std::move(on_gpu);
    started.work = group_.start(request);
  }
  wanted_ = Wanted::any;
  ++shadowed_;
}

void GroupShadow::start_coalesced(const SeenCall& whole) {
  if (whole.on_gpu) refuse_on_gpu(whole);
  std::vector<std::unique_ptr<ShadowCall>> calls;
  std::vector<Request> requests;
  for (const SeenCall& single : single_calls_of(whole)) {
    calls.push_back(shadow_of({.one = &single}));
    requests.push_back(calls.back()->request());
  }
  InFlight& started = in_flight_.emplace_back();
  started.calls = std::move(calls);
  started.work = group_.start_coalesced(requests);
}

void GroupShadow::require_hope(Duration idle) {
  if (ended_) return;
  const PendingOp next{.sequence = state_->record().collective_sequence() + 1};
  if (!state_->health().is_sound())
    if (const auto error = state_->health().hopeless(next, [this] { return follow(); }))
      std::rethrow_exception(error);
  const Timeout limit = state_->timeout();
  if (limit.is_none() || idle < limit.duration()) return;
  // Those who have run out since they were last seen are not to blame.
  readable_->look_at_all(next.sequence, round_);
  asked_->look_at_all(next.sequence, round_);
  ErrorContext where = state_->members().context("shadow_all");
  for_each_other([&](const ShadowedMember& other) {
    if (!other.joined_at(round_)) where.missing.push_back(other.rank());
  });
  where.remedy = "look for a rank that has failed or is stuck; or allow more time";
  const double seconds = std::chrono::duration<double>(idle).count();
  throw TimeoutError(
      fmt::format("shadow_all of group '{}': nothing to shadow on rank {} for {:.3f} s, though "
                  "ranks [{}] have not run out",
                  state_->members().label(), state_->world().rank(), seconds,
                  fmt::join(where.missing, ", ")),
      idle, std::move(where));
}

// --- All together

std::uint64_t shadow_until_the_end(std::vector<GroupShadow>& shadows) {
  WorldContext& world = shadows.front().world();
  for (GroupShadow& shadow : shadows) shadow.join();
  const Clock& clock = world.clock();
  Patience patience = world.patience("shadowing groups", Timeout::none());
  const auto all_have_ended = [&] { return std::ranges::all_of(shadows, &GroupShadow::has_ended); };
  while (!all_have_ended()) {
    // Until there is something to do again.
    const TimePoint last = clock.now();
    PatientWait wait(patience);
    wait.until([&] {
      bool any = false;
      for (GroupShadow& shadow : shadows) any = shadow.follow() || any;
      if (any || all_have_ended()) return true;
      for (GroupShadow& shadow : shadows) shadow.require_hope(clock.now() - last);
      return false;
    });
  }
  std::vector<Work> parting;
  for (GroupShadow& shadow : shadows) parting.push_back(shadow.part());
  for (Work& work : parting) work.wait();
  std::uint64_t shadowed = 0;
  for (const GroupShadow& shadow : shadows) shadowed += shadow.shadowed();
  return shadowed;
}

}  // namespace hymn::detail
