// What a world asks of its ranks about where they are, and tells of its own.
#include <fmt/format.h>

#include "base/company_watch.hpp"
#include "control/process_watch.hpp"
#include "recorder/call_facts.hpp"
#include "recorder/call_snapshot.hpp"
#include "recorder/last_call.hpp"
#include "recorder/rank_list.hpp"
#include "runtime/world/world_state.hpp"

namespace hymn::detail {

std::vector<ProgressReport> WorldState::ask(const Inquiry& about, std::span<const int> ranks,
                                            Duration limit) const {
  if (!agent_) return {};
  auto reports = agent_->ask(about, ranks, limit);
  look_at_silent(reports, about);
  return reports;
}

std::vector<ProgressReport> WorldState::end_asking(std::uint64_t question,
                                                   const Inquiry& about) const {
  auto reports = agent_->end_asking(question);
  look_at_silent(reports, about);
  return reports;
}

// Of a rank on this host that says nothing there is still its memory.
void WorldState::look_at_silent(std::vector<ProgressReport>& reports, const Inquiry& about) const {
  for (ProgressReport& report : reports) {
    if (is_gone(report.state))
      report.doing += tell_culprits(agent_->news_of(report.rank), report.doing);
    const PeerRecorder* const recorder =
        report.answered ? nullptr : control_->recorder_of(report.rank);
    if (recorder == nullptr) continue;
    const RecorderView view = recorder->view();
    for (const GroupLineSeen& line : view.groups()) {
      if (line.is_meeting() && line.ranks)
        report.awaited = {.uid = line.uid, .sequence = line.met, .ranks = pack_ranks(*line.ranks)};
      if (line.uid != about.uid) continue;
      report.knows_group = true;
      report.entered = line.come_to();
      report.completed = line.completed;
      report.shrinks = line.shrunk;
    }
    if (report.state == PeerState::left) add_given_up(report, about, view);
    if (is_gone(report.state)) continue;
    report.stopped = is_stopped(persons_[static_cast<std::size_t>(report.rank)].pid);
    add_calls(report, view, about, nullptr);
    const auto making = unended_making(view);
    report.makes = making && making->uid == about.uid;
    const auto call = unended_call(view);
    if (report.awaited.ranks.empty() && (call || making))
      report.awaited = call ? awaited_in(view, *call) : awaited_in(view, *making);
    // It may be that only the rank that runs the coordinator is stopped, and no answer gets
    // through.
    report.answered = !report.stopped;
  }
}

// At a limit all of a circle give up at about the same time: who is the first to leave has waited,
// too. So has who was the first to give up a group that was being made.
void WorldState::add_given_up(ProgressReport& report, const Inquiry& about,
                              const RecorderView& view) const {
  const auto making = unended_making(view);
  report.makes = making && making->uid == about.uid;
  const auto call = unended_call(view);
  if (!call || call->state != CallState::failed) return;
  report.awaited = hymn::awaited_in(view, *call);
  report.doing += report.doing.empty() ? "" : "; ";
  report.doing +=
      describe_last_call(view, {[this](std::uint64_t uid) { return registry_.label(uid); }});
}

void WorldState::add_calls(ProgressReport& report, const RecorderView& view, const Inquiry& about,
                           const FrameSource* sites) const {
  report.doing = report.stopped ? stopped_words : "";
  report.doing +=
      describe_last_call(view, {[this](std::uint64_t uid) { return registry_.label(uid); }, sites});
  const auto call = about.sequence == 0 ? std::nullopt : find_call(view, about.uid, about.sequence);
  if (!call) return;
  report.call = describe_call(*call);
  report.signature = signature_of(*call);
  if (sites != nullptr) report.site = site_text(call->site, *sites);
}

FrameSource WorldState::sites_of(int rank, const RecorderView& view) const {
  const Person& person = persons_[static_cast<std::size_t>(rank)];
  return in_one_process_ ? FrameSource() : source_of(view, person.in_sight ? person.pid : 0);
}

std::string WorldState::site_of(int rank, std::uint64_t site) const {
  if (rank == rank_) return site_text(site);
  const std::optional<RecorderView> view = records_of(rank);
  return view ? site_text(site, sites_of(rank, *view)) : "";
}

void WorldState::find_sites(std::span<ProgressReport> reports, Inquiry about,
                            Duration limit) const {
  about.sites = true;
  std::vector<int> elsewhere;
  for (ProgressReport& report : reports) {
    const std::optional<RecorderView> view = records_of(report.rank);
    if (!view) {
      if (report.answered) elsewhere.push_back(report.rank);
      continue;
    }
    if (is_gone(report.state)) continue;
    const FrameSource sites = sites_of(report.rank, *view);
    add_calls(report, *view, about, &sites);
    report.doing += report.remark;
  }
  if (elsewhere.empty() || !agent_ || limit == Duration::zero()) return;
  for (const ProgressReport& closer : agent_->ask(about, elsewhere, limit)) {
    const auto told = std::ranges::find(reports, closer.rank, &ProgressReport::rank);
    if (closer.answered && told != reports.end()) *told = closer;
  }
}

void WorldState::follow_waits(MissingRanks& missing, Duration waited, Duration patience) const {
  const TimePoint began = steady_clock().now();
  const auto elapsed = [began] { return steady_clock().now() - began; };
  const auto ask = [&](const Inquiry& about, std::span<const int> ranks) {
    return this->ask(about, ranks, std::max(patience - elapsed(), Duration::zero()));
  };
  WaitChains chains(rank_, waited, ask, elapsed);
  detail::follow_waits(missing, chains, [this](int rank) { return name_of(rank); });
}

TimeoutError WorldState::with_missing(const TimeoutError& error, const Membership& group) const {
  std::vector<int> others = group.ranks;
  std::erase(others, rank_);
  MissingRanks missing;
  missing.reports = ask(group.uid, others, control::longest_question);
  std::erase_if(missing.reports,
                [](const ProgressReport& report) { return report.makes || report.knows_group; });
  if (missing.reports.empty()) return with_known(error, company(group.ranks));
  for (const ProgressReport& report : missing.reports) missing.ranks.push_back(report.rank);
  std::vector<int> idle;
  for (const ProgressReport& report : missing.reports)
    if (report.answered && report.awaited.ranks.empty()) idle.push_back(report.rank);
  missing.words = tell_absent(missing.reports);
  follow_waits(missing, error.waited(), control::longest_question);
  ErrorContext where = error.context();
  where.missing = std::move(missing.ranks);
  const TimeoutError told(fmt::format("{}; missing: {}", error.problem(), missing.words),
                          error.waited(), std::move(where));
  // Where one of them is stopped, it may hold up the others of them.
  return with_known(told, company(told.context().missing), idle);
}

// Others see only which calls have not ended; not which of them a thread waits in.
OwnWait WorldState::own_wait() const {
  {
    // Who meets the others before a collective has not entered it yet.
    const std::lock_guard lock(known_mutex_);
    for (const auto& [key, group] : known_groups_)
      if (const std::uint64_t meeting = group->meeting(); meeting != 0)
        return {
            .uid = key.first, .sequence = meeting, .ranks = pack_ranks(group->membership().ranks)};
  }
  const RecorderView view = recorder_.view();
  const std::vector<CallRecord> waited = waited_calls();
  if (!waited.empty()) return awaited_in(view, waited.back());
  if (const auto making = unended_making(view)) return awaited_in(view, *making);
  const auto last = unended_call(view);
  if (last && last->state == CallState::failed) return awaited_in(view, *last);
  const ProgressEngine* const engine = watched_engine_.load(std::memory_order_acquire);
  const auto tested =
      engine == nullptr || engine->has_own_thread() ? std::nullopt : tested_call(view);
  if (!tested) return {};
  OwnWait awaited = awaited_in(view, *tested);
  awaited.tests = true;
  return awaited;
}

ProgressReport WorldState::tell(const Inquiry& about) {
  ProgressReport report{.rank = rank_, .shrinks = agent_ && agent_->is_shrinking(about.uid)};
  report.waits = about.sequence != 0 && wait_reports_.will_tell(about.uid, about.sequence);
  const FrameSource own;
  const RecorderView view = recorder_.view();
  add_calls(report, view, about, about.sites ? &own : nullptr);
  // It may be for that reason that it does not come.
  for (const int culprit : failure_seen().missing)
    if (culprit != rank_)
      report.remark += fmt::format("; it has seen a failure of {}", name_of(culprit));
  report.doing += report.remark;
  const auto making = unended_making(view);
  report.makes = making && making->uid == about.uid;
  report.awaited = own_wait();
  const ProgressEngine* engine = watched_engine_.load(std::memory_order_acquire);
  report.undriven =
      engine != nullptr && about.sequence != 0 && engine->is_undriven(about.uid, about.sequence);
  if (const auto mark = registry_.mark(about.uid)) {
    report.knows_group = true;
    report.entered = mark->entered;
    report.completed = mark->completed;
  }
  std::lock_guard lock(known_mutex_);
  visit_known(about.uid, [&](const GroupState& group) {
    report.entered = std::max(report.entered, group.met());
  });
  return report;
}

CallProgress WorldState::tell_calls(std::uint64_t uid, std::uint64_t sequence) {
  std::lock_guard lock(known_mutex_);
  CallProgress report;
  visit_known(uid, [&](const GroupState& group) {
    if (group.is_member()) report = report_of(look_at_calls(group.line(), ring(), uid, sequence));
  });
  return report;
}

std::optional<RecorderView> WorldState::records_of(int rank) const {
  const auto index = static_cast<std::size_t>(rank);
  const bool pretends_to_be_elsewhere = site_ && persons_.at(index).host != site_->host;
  if (!control_ || pretends_to_be_elsewhere) return std::nullopt;
  return control_->view_of(rank);
}

}  // namespace hymn::detail
