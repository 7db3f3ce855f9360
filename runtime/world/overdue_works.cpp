#include "runtime/world/overdue_works.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "runtime/group/work_state.hpp"

namespace hymn::detail {

// Operations whose limit has passed while nobody moves them forward. Where a member is missing the
// group is given up. What all have entered may just not have been looked at: whoever waits for it
// next finds it done, or comes to a limit of their own.
void OverdueWorks::look() {
  ProgressEngine* const engine = world_.watched_engine.load(std::memory_order_acquire);
  if (engine == nullptr) return;
  engine->look_what_is_driven(world_.clock().now());
  if (world_.incidents.watchdog()->policy() == OnFailure::report) return;
  if (overdue_.empty())
    for (const ProgressEngine::Overdue& work : engine->take_overdue(world_.clock().now()))
      overdue_.push_back(ask_about(work));
  std::erase_if(overdue_, [this](Asked& asked) { return look_after(asked); });
}

OverdueWorks::Asked OverdueWorks::ask_about(const ProgressEngine::Overdue& work) {
  Asked asked{.work = work};
  std::vector<int> ranks;
  groups_.with(work.uid, [&](const GroupState& group) {
    std::tie(asked.about, ranks) = group.inquiry().whom_to_ask(work.op);
  });
  // Outside of the lock: ranks that are threads answer within the call.
  if (world_.peers.has_control() && !ranks.empty())
    asked.question = world_.peers.agent()->begin_asking(asked.about, ranks);
  return asked;
}

bool OverdueWorks::look_after(Asked& asked) {
  std::vector<ProgressReport> reports;
  if (asked.question) {
    if (!world_.peers.agent()->is_answered(*asked.question) &&
        ++asked.beats < PeerInquiry::longest_answer)
      return false;
    reports = world_.inquiry.end_asking(*asked.question, asked.about);
  }
  const bool collective = is_collective(asked.work.op.type);
  // Who has not been heard of may have come, or not.
  bool is_sound = false;
  groups_.with(asked.work.uid,
               [&](const GroupState& group) { is_sound = !group.health().is_aborted(); });
  if (!is_sound) return true;
  if (collective && std::ranges::any_of(reports, &ProgressReport::cut_off))
    world_.watched_engine.load(std::memory_order_acquire)->tell_overdue_again(asked.work.uid);
  // Looked up here, places are known at once under the lock.
  world_.inquiry.find_sites(reports, asked.about, Duration::zero());
  MissingRanks missing;
  groups_.with(asked.work.uid, [&](const GroupState& group) {
    missing = group.inquiry().missing_of(asked.work.op, reports);
  });
  const bool is_missed = collective && !missing.ranks.empty() && !missing.undriven;
  const bool may_be_done = asked.work.on_host && asked.question.has_value();
  if (may_be_done && !is_missed) return true;
  // What all have entered is left alone where somebody is missing in a later one.
  std::uint64_t first = may_be_done ? asked.work.op.sequence : 0;
  for (const ProgressReport& report : missing.reports) first = std::min(first, report.entered + 1);
  give_up(asked, first, std::move(reports));
  return true;
}

void OverdueWorks::give_up(const Asked& asked, std::uint64_t first,
                           std::vector<ProgressReport> reports) {
  // It may have ended since the others were asked, or somebody waits for it now.
  const auto overdue = world_.watched_engine.load(std::memory_order_acquire)
                           ->still_overdue(asked.work, first, world_.clock().now());
  if (!overdue) return;
  const ProgressEngine::Overdue& work = *overdue;
  // What they told of their calls is of the newest.
  if (work.op.sequence != asked.work.op.sequence)
    for (ProgressReport& report : reports) report.signature = 0;
  MissingRanks missing;
  groups_.with(work.uid, [&](const GroupState& group) {
    missing = group.inquiry().missing_of(work.op, std::move(reports));
  });
  const GroupFailure failure{
      fmt::format("rank {}: {} #{} has not completed within its limit, and nobody waits for it{}{}",
                  world_.rank(), to_string(work.op.type), work.op.sequence,
                  missing.words.empty() ? "" : "; ", missing.words),
      std::move(missing.ranks)};
  bool found = false;
  groups_.visit(work.uid, [&](GroupState& group) {
    if (group.health().is_aborted()) return;
    group.health().abort_here(failure);
    found = true;
  });
  if (!found) return;
  world_.logger.warning(failure.reason);
  world_.incidents.report({"timeout", failure.reason});
  world_.peers.announce_abort(work.uid, failure);
  world_.incidents.group_failed(failure);
}

}  // namespace hymn::detail
