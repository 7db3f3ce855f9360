#include "runtime/world/group_shrink.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "recorder/making_note.hpp"

namespace hymn::detail {
namespace {

/// Those of `ranks` that are among `some`: they keep their order.
std::vector<int> as_ordered_in(const std::vector<int>& ranks, const std::vector<int>& some) {
  std::vector<int> ordered;
  std::ranges::copy_if(ranks, std::back_inserter(ordered),
                       [&some](int rank) { return std::ranges::find(some, rank) != some.end(); });
  return ordered;
}

/// It waits in it, too. What a rank that is stopped has begun it has not told the others, perhaps.
bool has_come(const ProgressReport& report) { return report.shrinks && !report.stopped; }

}  // namespace

ProcessGroup GroupShrink::shrink(GroupState& group) {
  const ErrorContext context = group.members().context("shrink");
  world_.life.require_here(context);
  if (group.health().is_destroyed() || world_.life.is_destroyed())
    throw UsageError("the group has been destroyed", context);
  if (!group.members().is_member())
    throw UsageError("this rank is not a member of the group", context);
  if (!world_.peers.has_control())
    throw UnsupportedError("without a control plane nobody knows who is left",
                           {.rank = world_.rank(),
                            .group = context.group,
                            .operation = context.operation,
                            .remedy = "do not switch it off (HYMN_CONTROL)"});
  world_.life.require_drive(context);
  groups_.settle();
  const Membership& old = group.members().membership();
  group.record().line().flags.fetch_or(GroupLine::shrunk, std::memory_order_acq_rel);
  MakingNote note(world_.recorder, old.uid, old.ranks, MakingKind::shrink);
  if (!group.health().is_aborted()) group.health().abort_to_shrink();
  group.works().end_given_up();
  const TimePoint began = world_.clock().now();
  const Deadline deadline = Deadline::after(limit_for(group), began);
  const Patience patient = patience(group, old.uid, old.ranks, deadline);
  while (true) {
    note.begin();
    const auto verdict = world_.peers.agent()->shrink(old.uid, old.ranks, patient);
    if (!verdict) {
      if (!world_.peers.agent()->has_no_coordinator())
        world_.incidents.report({"timeout", fmt::format("shrink of group '{}': not all have come",
                                                        group.members().label())});
      throw_not_all_have(group, "called shrink", old.uid, old.ranks, world_.clock().now() - began);
    }
    try {
      if (auto shrunk = make(group, *verdict, deadline)) {
        world_.failures.forget();
        note.set_made();
        groups_.factory().keep_tagged(shrunk);
        return ProcessGroup(std::move(shrunk));
      }
    } catch (...) {
      world_.peers.agent()->reject_verdict(*verdict);
      throw;
    }
  }
}

Patience GroupShrink::patience(const GroupState& group, std::uint64_t uid, std::vector<int> ranks,
                               Deadline deadline) const {
  Patience patient = world_.patience("shrinking a group", Timeout::none());
  patient.deadline = deadline;
  patient.long_wait = long_wait(fmt::format("shrinking group '{}'", group.members().label()), uid,
                                std::move(ranks));
  return patient;
}

// All may have come at the last moment, and what remains to be done takes little.
Timeout GroupShrink::rest_of(Deadline deadline) const {
  if (deadline.is_never()) return Timeout::none();
  return std::max<Duration>(deadline.when() - world_.clock().now(), std::chrono::seconds(1));
}

Timeout GroupShrink::limit_for(const GroupState& group) const {
  return group.options().init_timeout.or_else(world_.settings.init_limit());
}

std::shared_ptr<LongWait> GroupShrink::long_wait(std::string purpose, std::uint64_t uid,
                                                 std::vector<int> ranks) const {
  if (world_.settings.config.wait_report.is_none()) return nullptr;
  return std::make_shared<LongWait>(
      world_.settings.config.wait_report, world_.clock(),
      [this, uid, purpose = std::move(purpose), ranks = std::move(ranks)](std::span<const int>,
                                                                          Duration waited, bool) {
        std::vector<ProgressReport> reports =
            world_.inquiry.ask(uid, ranks, control::longest_question);
        const bool quietly = std::ranges::any_of(reports, [this](const ProgressReport& report) {
          return has_come(report) && report.rank < world_.rank();
        });
        std::erase_if(reports, [this](const ProgressReport& report) {
          return report.rank == world_.rank() || has_come(report) || hymn::is_gone(report.state);
        });
        world_.inquiry.report_waiting(purpose, std::move(reports), waited, quietly);
      });
}

// Some may have made the group, and others not, when one of those that were left is lost, too. Then
// all throw it away, and try again without that one: it is made for all or for none.
std::shared_ptr<GroupState> GroupShrink::make(const GroupState& group,
                                              const control::ShrinkVerdict& verdict,
                                              Deadline deadline) {
  const Membership& old = group.members().membership();
  GroupOptions options = group.options();
  options.timeout = group.timeout();
  std::shared_ptr<GroupState> shrunk;
  try {
    shrunk = groups_.factory().make({.ranks = as_ordered_in(old.ranks, verdict.survivors),
                                     .uid = verdict.new_uid,
                                     .parent = old.uid,
                                     .epoch = old.epoch + 1,
                                     .tag = TaggedGroups::is_automatic(old.tag) ? "" : old.tag},
                                    options, rest_of(deadline));
  } catch (const std::exception& error) {
    std::vector<int> lost;
    std::copy_if(
        verdict.survivors.begin(), verdict.survivors.end(), std::back_inserter(lost),
        [this](int rank) { return world_.peers.is_hopeless(rank) || world_.peers.has_left(rank); });
    world_.peers.announce_abort(verdict.new_uid, {error.what(), lost});
    if (lost.empty()) throw;
    return nullptr;
  }
  const TimePoint began = world_.clock().now();
  MakingNote note(world_.recorder, old.uid, verdict.survivors, MakingKind::shrink);
  const auto made = world_.peers.agent()->confirm(
      verdict.new_uid, verdict.survivors,
      patience(group, verdict.new_uid, verdict.survivors,
               Deadline::after(rest_of(deadline), world_.clock().now())));
  if (made && made->survivors == verdict.survivors) {
    note.set_made();
    return shrunk;
  }
  if (made) {
    shrunk->health().abort_here({"a rank was lost before all had the group"});
    return nullptr;
  }
  // The thread that brings the news may not have told the group yet.
  if (const auto heard = world_.peers.agent()->abort_of(verdict.new_uid))
    shrunk->health().abort_here({heard->reason, heard->missing});
  if (shrunk->health().is_aborted()) {
    if (!shrunk->health().abort_failure().missing.empty()) return nullptr;
    std::rethrow_exception(shrunk->health().aborted_error("shrink"));
  }
  try {
    throw_not_all_have(group, "made the new group", verdict.new_uid, verdict.survivors,
                       world_.clock().now() - began);
  } catch (const Error& error) {
    shrunk->health().abort({error.problem()});
    throw;
  }
}

void GroupShrink::throw_not_all_have(const GroupState& group, const char* done, std::uint64_t uid,
                                     const std::vector<int>& ranks, Duration waited) const {
  ErrorContext context = group.members().context("shrink");
  if (world_.peers.agent()->has_no_coordinator()) {
    context.remedy = "check that the hosts can reach each other (HYMN_INTERFACE), or end the job";
    throw UnsupportedError(
        "the ranks cannot agree on who is left: no rank that runs a coordinator of the control "
        "plane can "
        "be reached",
        std::move(context));
  }
  context.remedy = "call shrink on every member of the group that is left";
  std::vector<std::string> names;
  for (const ProgressReport& report : world_.inquiry.ask(uid, ranks, control::longest_question)) {
    if (report.rank == world_.rank() || has_come(report) || hymn::is_gone(report.state)) continue;
    context.missing.push_back(report.rank);
    names.push_back(fmt::format("{} ({})", world_.peers.name_of(report.rank), report.doing));
  }
  throw TimeoutError(fmt::format("not all members that are left have {} within {:.3f} s{}{}", done,
                                 std::chrono::duration<double>(waited).count(),
                                 names.empty() ? "" : "; missing: ", fmt::join(names, "; ")),
                     waited, std::move(context));
}

}  // namespace hymn::detail
