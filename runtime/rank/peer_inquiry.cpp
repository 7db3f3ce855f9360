#include "runtime/rank/peer_inquiry.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/company_watch.hpp"
#include "control/process_watch.hpp"
#include "recorder/call_facts.hpp"
#include "recorder/call_snapshot.hpp"
#include "recorder/last_call.hpp"
#include "recorder/rank_list.hpp"
#include "runtime/rank/some_names.hpp"

namespace hymn::detail {

std::vector<ProgressReport> PeerInquiry::ask(const Inquiry& about, std::span<const int> ranks,
                                             Duration limit) const {
  if (!peers_.has_control()) return {};
  auto reports = peers_.agent()->ask(about, ranks, limit);
  look_at_silent(reports, about);
  return reports;
}

std::vector<ProgressReport> PeerInquiry::end_asking(std::uint64_t question,
                                                    const Inquiry& about) const {
  auto reports = peers_.agent()->end_asking(question);
  look_at_silent(reports, about);
  return reports;
}

// Of a rank on this host that says nothing there is still its memory.
void PeerInquiry::look_at_silent(std::vector<ProgressReport>& reports, const Inquiry& about) const {
  for (ProgressReport& report : reports) {
    if (is_gone(report.state))
      report.doing += peers_.tell_culprits(peers_.agent()->news_of(report.rank), report.doing);
    const PeerRecorder* const recorder =
        report.answered ? nullptr : records_.recorder_of(report.rank);
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
    report.stopped = is_stopped(peers_.person(report.rank).pid);
    add_calls(report, view, about, nullptr);
    const auto making = unended_making(view);
    report.makes = is_making(view, about.uid);
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
void PeerInquiry::add_given_up(ProgressReport& report, const Inquiry& about,
                               const RecorderView& view) const {
  report.makes = is_making(view, about.uid);
  const auto call = unended_call(view);
  if (!call || call->state != CallState::failed) return;
  report.awaited = hymn::awaited_in(view, *call);
  report.doing += report.doing.empty() ? "" : "; ";
  report.doing +=
      describe_last_call(view, {[this](std::uint64_t uid) { return registry_.label(uid); }});
}

void PeerInquiry::add_calls(ProgressReport& report, const RecorderView& view, const Inquiry& about,
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

void PeerInquiry::find_sites(std::span<ProgressReport> reports, Inquiry about,
                             Duration limit) const {
  about.sites = true;
  std::vector<int> elsewhere;
  for (ProgressReport& report : reports) {
    const std::optional<RecorderView> view = records_.of(report.rank);
    if (!view) {
      if (report.answered) elsewhere.push_back(report.rank);
      continue;
    }
    if (is_gone(report.state)) continue;
    const FrameSource sites = records_.sites_of(report.rank, *view);
    add_calls(report, *view, about, &sites);
    report.doing += report.remark;
  }
  if (elsewhere.empty() || !peers_.has_control() || limit == Duration::zero()) return;
  for (const ProgressReport& closer : peers_.agent()->ask(about, elsewhere, limit)) {
    const auto told = std::ranges::find(reports, closer.rank, &ProgressReport::rank);
    if (closer.answered && told != reports.end()) *told = closer;
  }
}

void PeerInquiry::follow_waits(MissingRanks& missing, Duration waited, Duration patience) const {
  const TimePoint began = steady_clock().now();
  const auto elapsed = [began] { return steady_clock().now() - began; };
  const auto ask = [&](const Inquiry& about, std::span<const int> ranks) {
    return this->ask(about, ranks, std::max(patience - elapsed(), Duration::zero()));
  };
  WaitChains chains(settings_.rank, waited, ask, elapsed);
  detail::follow_waits(missing, chains, [this](int rank) { return peers_.name_of(rank); });
}

TimeoutError PeerInquiry::with_missing(const TimeoutError& error, const Membership& group) const {
  std::vector<int> others = group.ranks;
  std::erase(others, settings_.rank);
  MissingRanks missing;
  missing.reports = ask(group.uid, others, control::longest_question);
  std::erase_if(missing.reports,
                [](const ProgressReport& report) { return report.makes || report.knows_group; });
  if (missing.reports.empty()) return with_known(error, peers_.company(group.ranks));
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
  return with_known(told, peers_.company(told.context().missing), idle);
}

std::shared_ptr<LongWait> PeerInquiry::long_wait(const std::string& purpose) const {
  if (settings_.config.wait_report.is_none()) return nullptr;
  return std::make_shared<LongWait>(
      settings_.config.wait_report, *settings_.clock,
      [this, purpose](std::span<const int> missing, Duration waited, bool quietly) {
        std::vector<int> others(missing.begin(), missing.end());
        std::erase(others, settings_.rank);
        std::vector<ProgressReport> reports = ask({}, others, control::longest_question);
        // Without a control plane more may still be seen.
        if (!peers_.has_control())
          for (const int rank : others)
            reports.push_back({.rank = rank, .doing = peers_.tell_of(rank)});
        report_waiting(purpose, std::move(reports), waited, quietly);
      });
}

std::string PeerInquiry::tell_absent(std::span<const ProgressReport> reports) const {
  std::vector<std::string> names;
  for (const ProgressReport& report : reports) {
    const std::string end = peers_.tell_of(report.rank);
    std::string_view doing = report.doing;
    if (!end.empty() && doing.starts_with(stopped_words)) doing.remove_prefix(stopped_words.size());
    if (!end.empty() && end.find(doing) != std::string::npos) doing = {};
    names.push_back(
        fmt::format("{}{}{}", end.empty() ? peers_.name_of(report.rank) + " has not arrived" : end,
                    doing.empty() ? ""
                    : end.empty() ? ": "
                                  : "; ",
                    doing));
  }
  return some_of(std::move(names));
}

void PeerInquiry::report_waiting(const std::string& purpose, std::vector<ProgressReport> missing,
                                 Duration waited, bool quietly) const {
  const std::string whom = missing.empty() ? "" : "; missing: " + tell_absent(missing);
  const std::string text =
      fmt::format("{} has waited {:.1f} s on rank {}{}; `hymn trace --live {}` tells more", purpose,
                  std::chrono::duration<double>(waited).count(), settings_.rank, whom, getpid());
  logger_.warning(text, quietly);
}

}  // namespace hymn::detail
