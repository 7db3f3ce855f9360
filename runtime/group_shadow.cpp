#include "runtime/group_shadow.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>

#include "base/waiter.hpp"
#include "runtime/world_state.hpp"

namespace hymn::detail {

// --- Another member

const GroupLine* ShadowedMember::line() {
  if (line_ == nullptr) line_ = view_.line_of(uid_);
  return line_;
}

std::uint64_t ShadowedMember::entered() {
  return line() == nullptr ? 0 : line_->collectives.load(std::memory_order_acquire);
}

std::optional<std::uint64_t> ShadowedMember::joined_at(std::uint64_t n) {
  if (line() == nullptr || line_->joins.load(std::memory_order_acquire) < n) return std::nullopt;
  return line_->joined_at.load(std::memory_order_acquire);
}

std::optional<CallRecord> ShadowedMember::find(std::uint64_t sequence) {
  const CallRing& ring = view_.ring();
  next_record_ = std::max(next_record_, ring.first_id());
  for (; next_record_ < ring.next_id(); ++next_record_) {
    const auto record = ring.read(next_record_);
    // It is being written, or has just been overwritten: the next look tells.
    if (!record) return std::nullopt;
    if (record->group_uid != uid_ || !is_collective(record->type)) continue;
    if (record->sequence == sequence) return record;
    if (record->sequence > sequence)
      throw ResourceError(
          fmt::format("rank {} has made so many calls that its record of collective #{} is "
                      "overwritten",
                      rank_, sequence),
          {.remedy = "let fewer calls be in flight, or raise HYMN_RECORDER_SIZE"});
  }
  return std::nullopt;
}

// --- This one

GroupShadow::GroupShadow(ProcessGroup group)
    : group_(std::move(group)), state_(GroupState::of(group_)) {
  require_support();
  const Membership& membership = state_->membership();
  for (const int rank : membership.ranks) {
    if (rank == state_->world().rank()) continue;
    const auto view = state_->world().records_of(rank);
    if (!view || !view->ring().is_on()) {
      ErrorContext where = state_->context("shadow_all");
      where.remedy = "use joinables; or leave HYMN_CONTROL and HYMN_RECORDER_SIZE on";
      throw UnsupportedError(
          fmt::format("what {} records cannot be read here: it is on another host, or there is no "
                      "control plane, or no flight recorder",
                      state_->world().name_of(rank)),
          std::move(where));
    }
    others_.emplace_back(rank, membership.uid, *view);
  }
  round_ = state_->line().joins.load(std::memory_order_relaxed) + 1;
}

GroupShadow::~GroupShadow() {
  if (in_flight_.empty()) return;
  // MPI may read and write them for nobody knows how long: they are kept for good.
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::unique_ptr<ShadowCall>>();
  const std::lock_guard lock(mutex);
  for (InFlight& one : in_flight_) kept->push_back(std::move(one.call));
}

void GroupShadow::require_support() const {
  const auto refuse = [this](const char* why, const char* remedy) {
    ErrorContext where = state_->context("shadow_all");
    where.remedy = remedy;
    throw UnsupportedError(why, std::move(where));
  };
  if (state_->world().checks() == CheckLevel::detail)
    refuse("with checks of level detail a call meets the others before it is recorded",
           "use HYMN_CHECKS=info, or joinables");
  if (state_->blocks())
    refuse("the group was made to use MPI's blocking calls, which no other form of a call matches",
           "make it with a limit of time, or use joinables");
}

void GroupShadow::join() {
  GroupLine& line = state_->line();
  line.joined_at.store(state_->collective_sequence(), std::memory_order_relaxed);
  line.joins.store(round_, std::memory_order_release);
}

std::optional<std::uint64_t> GroupShadow::total() {
  std::uint64_t most = state_->line().joined_at.load(std::memory_order_relaxed);
  for (ShadowedMember& other : others_) {
    const auto joined_at = other.joined_at(round_);
    if (!joined_at) return std::nullopt;
    most = std::max(most, *joined_at);
  }
  return most;
}

bool GroupShadow::retire() {
  bool any = false;
  while (!in_flight_.empty() && in_flight_.front().work.test()) {
    if (const auto error = in_flight_.front().work.error()) std::rethrow_exception(error);
    in_flight_.pop_front();
    any = true;
  }
  return any;
}

bool GroupShadow::follow() {
  if (ended_) return false;
  const bool retired = retire();
  const std::uint64_t next = state_->collective_sequence() + 1;
  // Who is ahead before who has run out: while one has not, what is ahead belongs to this round.
  const auto ahead = std::ranges::find_if(
      others_, [next](ShadowedMember& other) { return other.entered() >= next; });
  if (const auto all = total(); all && *all < next) {
    ended_ = in_flight_.empty();
    return retired || ended_;
  }
  if (ahead == others_.end()) return retired;
  const auto record = ahead->find(next);
  if (!record) return retired;
  start(*record);
  return true;
}

void GroupShadow::start(const CallRecord& record) {
  auto call = std::make_unique<ShadowCall>(record, state_->world().rank(), state_->shape());
  const Request& request = call->request();
  in_flight_.push_back({std::move(call), {}});
  in_flight_.back().work = group_.start(request);
  ++shadowed_;
}

void GroupShadow::require_hope(Duration idle) {
  if (ended_) return;
  const PendingOp next{.sequence = state_->collective_sequence() + 1};
  if (!state_->is_sound())
    if (const auto error = state_->hopeless(next)) std::rethrow_exception(error);
  const Timeout limit = state_->timeout();
  if (limit.is_none() || idle < limit.duration()) return;
  ErrorContext where = state_->context("shadow_all");
  for (ShadowedMember& other : others_)
    if (!other.joined_at(round_)) where.missing.push_back(other.rank());
  where.remedy = "look for a rank that has failed or is stuck; or allow more time";
  const double seconds = std::chrono::duration<double>(idle).count();
  throw TimeoutError(
      fmt::format("shadow_all of group '{}': nothing to shadow on rank {} for {:.3f} s, though "
                  "ranks [{}] have not run out",
                  state_->label(), state_->world().rank(), seconds, fmt::join(where.missing, ", ")),
      idle, std::move(where));
}

// --- All together

std::uint64_t shadow_until_the_end(std::vector<GroupShadow>& shadows) {
  WorldState& world = shadows.front().world();
  for (GroupShadow& shadow : shadows) shadow.join();
  const Clock& clock = world.clock();
  ProgressEngine& engine = world.engine();
  Waiter waiter(engine.crowded());
  TimePoint last = clock.now();
  while (!std::ranges::all_of(shadows, &GroupShadow::has_ended)) {
    bool any = false;
    for (GroupShadow& shadow : shadows) any = shadow.follow() || any;
    if (any) {
      waiter = Waiter(engine.crowded());
      last = clock.now();
      continue;
    }
    const Duration idle = clock.now() - last;
    for (GroupShadow& shadow : shadows) shadow.require_hope(idle);
    if (!engine.is_idle()) engine.step_all();
    waiter.pause();
  }
  std::vector<Work> parting;
  for (GroupShadow& shadow : shadows) parting.push_back(shadow.part());
  for (Work& work : parting) work.wait();
  std::uint64_t shadowed = 0;
  for (const GroupShadow& shadow : shadows) shadowed += shadow.shadowed();
  return shadowed;
}

}  // namespace hymn::detail
