#include "runtime/group/group_health.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <thread>

#include "collectives/call_label.hpp"
#include "runtime/group/call_title.hpp"
#include "runtime/rank/some_names.hpp"

namespace hymn::detail {
namespace {

// What another has written to shared memory is here before what it sends at the same time: so much
// before at most, on a machine whose cores are taken.
constexpr Duration way_of_news = std::chrono::seconds(5);
// Who is gone may have gone before it told anything, and explains the failure as well.
constexpr Duration way_of_news_past_the_gone = std::chrono::milliseconds(100);

/// In a group that is aborted, where an error is a consequence of that.
bool completes(const std::function<bool()>& step) {
  try {
    return step();
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

// --- Members that are gone

void GroupHealth::member_changed(const PeerNews& news) {
  const int member = members_.find_rank(news.rank);
  if (member < 0 || !members_.is_member()) return;
  if (!is_gone(news.state)) {
    gone_.forget(member);
    return;
  }
  gone_.note(member, news, world_.clock().now());
  Health sound = Health::sound;
  health_.compare_exchange_strong(sound, Health::lost_member, std::memory_order_acq_rel);
}

std::vector<PeerNews> GroupHealth::missed_by(const PendingOp& op) const {
  return gone_.missed_by(op, world_.clock().now());
}

std::string GroupHealth::describe_gone(const std::vector<PeerNews>& gone) const {
  std::vector<std::string> names;
  for (const PeerNews& news : gone) names.push_back(world_.peers.describe_end(news));
  return some_of(std::move(names));
}

std::exception_ptr GroupHealth::gone_error(const std::string& title, std::string_view what,
                                           const std::vector<PeerNews>& gone) const {
  ErrorContext where = members_.context(title);
  where.remedy = "find out why it has ended; shrink() makes a group of the ranks that are left";
  where.missing = culprits_of(gone);
  const std::string problem =
      fmt::format("{} of group '{}' on rank {} {}: {}", title, members_.label(), world_.rank(),
                  what, describe_gone(gone));
  world_.failures.note({problem, where.missing});
  return std::make_exception_ptr(PeerError(problem, std::move(where)));
}

std::exception_ptr GroupHealth::hopeless(const PendingOp& op,
                                         const std::function<bool()>& step) const {
  if (is_aborted()) return completes(step) ? nullptr : aborted_error(title_of(op));
  if (!world_.life.is_open()) return completes(step) ? nullptr : closed_error(title_of(op));
  const auto missed = missed_by(op);
  if (missed.empty() || step()) return nullptr;
  world_.incidents.report(
      {"death", fmt::format("{} of group '{}' cannot complete: {}", title_of(op), members_.label(),
                            describe_gone(missed))});
  return gone_error(title_of(op), "cannot complete", missed);
}

bool GroupHealth::step(Operation& operation, OpType type, long nanoseconds) const {
  if (may_take_wrongly(type)) return false;
  bool is_done = false;
  try {
    is_done = nanoseconds > 0 ? operation.park(nanoseconds) : operation.step();
  } catch (...) {
    if (!may_take_wrongly(type)) throw;
  }
  return is_done && !may_take_wrongly(type);
}

std::exception_ptr GroupHealth::closed_error(const std::string& title) const {
  ErrorContext where = members_.context(title);
  where.remedy = "wait for what is in flight, and destroy the World, before MPI_Finalize";
  return std::make_exception_ptr(
      UsageError("MPI was finalized while this was in flight", std::move(where)));
}

std::optional<GroupFailure> GroupHealth::find_lack(OpType type) const {
  auto gone = gone_.failed();
  // Who has left may be missed by collectives only.
  if (gone.empty() && is_collective(type))
    gone = gone_.left_before(record_.collective_sequence() + 1);
  if (gone.empty()) return std::nullopt;
  return failure_of(gone);
}

GroupFailure GroupHealth::failure_of(const std::vector<PeerNews>& gone) const {
  return {fmt::format("a member is gone: {}", describe_gone(gone)), culprits_of(gone)};
}

void GroupHealth::abort_to_shrink() {
  GroupFailure failure{fmt::format("rank {} shrinks the group", world_.rank())};
  if (const auto gone = gone_.failed(); !gone.empty()) {
    GroupFailure cause = failure_of(gone);
    failure = {fmt::format("{}: {}", failure.reason, cause.reason), std::move(cause.missing)};
  }
  abort(failure);
}

std::exception_ptr GroupHealth::explained(std::exception_ptr error, const std::string& title) {
  std::string reason;
  try {
    std::rethrow_exception(error);
  } catch (const ParentAborted& typed) {
    // What is known of this group itself says more.
    if (!is_aborted() && !has_failed_members()) return error;
    reason = typed.problem();
  } catch (const AbortedError& typed) {
    if (!typed.context().missing.empty() || !world_.peers.has_control()) return error;
    reason = typed.problem();
  } catch (const NetworkError& typed) {
    // What it has not got was to come from who is gone.
    auto gone = gone_.failed();
    std::erase_if(gone, [&missing = typed.context().missing](const PeerNews& news) {
      return std::ranges::find(missing, news.rank) == missing.end();
    });
    return gone.empty() ? error : gone_error(title, "cannot complete", gone);
  } catch (const OtherCall&) {
    return agreement_.named(error);
  } catch (...) {
    return error;
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto may_come = [&] {
    const bool is_anyone_gone = has_failed_members() || !gone_.left_before(UINT64_MAX).empty();
    const Duration way = is_anyone_gone ? way_of_news_past_the_gone : way_of_news;
    return std::chrono::steady_clock::now() - begin < way;
  };
  while (!is_aborted() && may_come()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (is_aborted()) return aborted_error(title);
  // The news are lost, perhaps, or stuck, with those who would have told them. The others are not
  // told what is guessed here: it might reach them first.
  const GroupFailure guess{reason, world_.peers.gone_ranks_in(reason)};
  abort_here(guess);
  world_.incidents.group_failed(guess);
  return aborted_error(title);
}

GroupFailure GroupHealth::describe_failure(const std::exception_ptr& error,
                                           const std::string& title) const {
  const auto told = [&](std::string_view what) {
    return fmt::format("rank {}: {}: {}", world_.rank(), title, what);
  };
  try {
    std::rethrow_exception(error);
  } catch (const Error& typed) {
    // These two say themselves in what they happened, and on which rank.
    const bool says_all = typed.kind() == ErrorKind::timeout || typed.kind() == ErrorKind::peer;
    return {says_all ? typed.problem() : told(typed.problem()), typed.context().missing};
  } catch (const std::exception& other) {
    return {told(other.what())};
  } catch (...) {
    return {told("an unknown failure")};
  }
}

void GroupHealth::abort_here(const GroupFailure& failure) {
  {
    std::lock_guard lock(mutex_);
    if (is_aborted()) return;
    failure_ = failure;
    world_.registry.set_aborted(members_.uid(), failure.reason);
    health_.store(Health::aborted, std::memory_order_release);
  }
  record_.line().flags.fetch_or(GroupLine::aborted, std::memory_order_acq_rel);
  world_.life.mark_failed();
  world_.failures.note(failure);
}

void GroupHealth::abort(const GroupFailure& failure) {
  if (is_aborted()) return;
  abort_here(failure);
  world_.peers.announce_abort(members_.uid(), abort_failure());
  world_.incidents.group_failed(failure);
}

void GroupHealth::note_failed_message(const GroupFailure& failure) const {
  world_.incidents.report({"error", failure.reason});
  world_.failures.note_message(failure);
}

void GroupHealth::abort_for(const std::string& reason) {
  require_usable("abort");
  if (is_aborted()) return;
  if (!members_.is_member()) {
    world_.logger.warning(
        fmt::format("abort of group '{}' is ignored: rank {} is not a member of it",
                    members_.label(), world_.rank()));
    return;
  }
  const GroupFailure failure{fmt::format("rank {}: abort was called: {}", world_.rank(), reason)};
  world_.incidents.report({"abort", failure.reason});
  abort(failure);
}

void GroupHealth::leave_because_of_failure() {
  const GroupFailure cause =
      world_.life.is_leaving() ? world_.cause_of_leaving() : world_.failures.cause();
  if (cause.missing.empty()) return;
  world_.failures.note(cause);
  leave({fmt::format("rank {} leaves because of an error: {}", world_.rank(), cause.reason),
         cause.missing});
}

void GroupHealth::leave_before(const std::string& title) {
  leave({fmt::format("rank {} has destroyed group '{}' before {} completed", world_.rank(),
                     members_.label(), title),
         {world_.rank()}});
}

void GroupHealth::leave(const GroupFailure& failure) {
  if (is_aborted()) return;
  abort_here(failure);
  world_.peers.announce_abort(members_.uid(), failure);
}

GroupFailure GroupHealth::abort_failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

std::exception_ptr GroupHealth::aborted_error(const std::string& operation) const {
  GroupFailure failure = abort_failure();
  // Who has given it up may have known less than is known here.
  if (const auto gone = gone_.failed(); failure.missing.empty() && !gone.empty()) {
    GroupFailure cause = failure_of(gone);
    failure = {fmt::format("{}; {}", failure.reason, cause.reason), std::move(cause.missing)};
  }
  return aborted_by(std::move(failure), operation);
}

std::exception_ptr GroupHealth::aborted_by(GroupFailure failure,
                                           const std::string& operation) const {
  ErrorContext where = members_.context(operation);
  where.remedy = "make a new group, or a new World, of the ranks that are left";
  where.missing = std::move(failure.missing);
  return std::make_exception_ptr(
      AbortedError(fmt::format("the group was aborted: {}", failure.reason), std::move(where)));
}

void GroupHealth::require_usable(const std::string& operation) const {
  world_.life.require_here(members_.context(operation));
  if (is_destroyed()) throw UsageError("the group has been destroyed", members_.context(operation));
}

}  // namespace hymn::detail
