#include "runtime/group/group_inquiry.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "recorder/call_facts.hpp"
#include "recorder/last_call.hpp"
#include "runtime/group/call_check.hpp"
#include "runtime/group/call_title.hpp"
#include "runtime/rank/some_names.hpp"

namespace hymn::detail {
namespace {

using control::longest_question;
constexpr Duration shortest_question = std::chrono::milliseconds(10);
// To find a place in the program takes longer, but is asked only of those who are there.
constexpr Duration longest_closer_look = std::chrono::seconds(1);
// Of more ranks it is not told where they are: nobody would read it.
constexpr std::size_t most_looked_at = 8;

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

Duration share_of(Timeout limit, Duration longest) {
  if (limit.is_none()) return longest;
  return std::clamp(limit.duration() / 4, shortest_question, longest);
}

}  // namespace

std::optional<CallRecord> GroupInquiry::own_call(const PendingOp& op) const {
  return find_call(world_.recorder.view(), members_.uid(),
                   op.first_part != 0 ? op.first_part : op.sequence, !is_collective(op.type));
}

std::vector<int> GroupInquiry::awaited_in(const PendingOp& op) const {
  if (!is_collective(op.type) && op.peer >= 0) return {members_.global_rank(op.peer)};
  const bool is_named = !op.peers.empty() && std::ranges::count(op.peers, any_source) == 0;
  std::vector<int> others;
  for (int member = 0; member < members_.shape().size; ++member)
    if (member != members_.shape().rank && (!is_named || std::ranges::count(op.peers, member) != 0))
      others.push_back(members_.ranks()[static_cast<std::size_t>(member)]);
  return others;
}

Inquiry GroupInquiry::inquiry_about(const PendingOp& op) const {
  return {members_.uid(), is_collective(op.type) ? op.sequence : 0};
}

std::string GroupInquiry::tell_apart(const PendingOp& op, std::vector<ProgressReport> reports,
                                     Duration patience) const {
  const auto own = own_call(op);
  if (!own || !is_collective(op.type)) return "";
  const std::uint64_t signature = signature_of(*own);
  std::erase_if(reports, [&](const ProgressReport& report) {
    return report.rank == world_.rank() || report.signature == 0 || report.signature == signature;
  });
  if (reports.empty()) return "";
  world_.inquiry.find_sites(std::span(reports).first(std::min(reports.size(), most_looked_at)),
                            inquiry_about(op), patience);
  std::vector<std::string> calls;
  std::vector<int> ranks;
  for (const ProgressReport& report : reports) {
    calls.push_back(with_site(report.call, report.site));
    ranks.push_back(report.rank);
  }
  return tell_calls(calls, ranks);
}

std::string GroupInquiry::tell_own(const PendingOp& op) const {
  const auto own = own_call(op);
  return own ? "this rank calls " + with_site(describe_call(*own), site_text(own->site)) : "";
}

MissingRanks GroupInquiry::find_missing(const PendingOp& op, std::vector<ProgressReport> reports,
                                        Duration patience) const {
  MissingRanks missing;
  const bool collective = is_collective(op.type);
  std::vector<std::string> unheard;
  std::vector<ProgressReport> absent;
  std::vector<ProgressReport> undriven;
  for (const ProgressReport& report : reports) {
    const bool entered = !collective || report.entered >= op.sequence;
    // Who has entered it, and left since, has waited itself, but not so long.
    const bool waited = report.answered || report.state == PeerState::left;
    if (collective && entered && waited) {
      if (report.undriven) undriven.push_back(report);
      continue;
    }
    if (report.cut_off && !report.answered) {
      unheard.push_back(world_.peers.name_of(report.rank));
      missing.unheard.push_back(report);
    } else {
      absent.push_back(report);
    }
  }
  missing.apart = tell_apart(op, reports, patience);
  // Who has started it is to blame only where no rank is missing without whom it cannot move, and
  // it is the same call.
  const bool all_entered = absent.empty() && unheard.empty() && missing.apart.empty();
  if (all_entered) absent = std::move(undriven);
  world_.inquiry.find_sites(std::span(absent).first(std::min(absent.size(), most_looked_at)),
                            inquiry_about(op), patience);
  std::vector<std::string> words;
  for (const ProgressReport& report : absent) {
    missing.ranks.push_back(report.rank);
    const bool is_known = report.answered || report.knows_group;
    const bool is_late = is_known && collective && report.entered < op.sequence;
    const std::string_view how = is_late ? " has not entered it"
                                 : collective && all_entered
                                     ? " has started it, and does not progress it"
                                     : "";
    words.push_back(fmt::format("{}{}: {}", world_.peers.name_of(report.rank), how, report.doing));
  }
  missing.any = awaits_message(op.type) && op.peer == any_source;
  missing.undriven = collective && all_entered && !absent.empty();
  missing.reports = std::move(absent);
  if (!words.empty())
    missing.words = (missing.undriven ? "not progressed by: "
                     : collective     ? "missing: "
                     : missing.any    ? "waiting for any of "
                                      : "waiting for ") +
                    some_of(std::move(words));
  else if (!missing.apart.empty())
    missing.words = "the calls differ: " + missing.apart;
  else if (!reports.empty() && unheard.empty())
    missing.words = "all its members have entered it";
  if (!unheard.empty())
    missing.words +=
        fmt::format("{}not known, as the rank that passes questions on does not answer: {}",
                    missing.words.empty() ? "" : "; ", some_of(std::move(unheard)));
  if (const std::string own = tell_own(op); !own.empty() && !missing.words.empty())
    missing.words += "; " + own;
  return missing;
}

std::string GroupInquiry::remedy_for(const MissingRanks& missing) const {
  std::string remedy =
      missing.undriven ? "wait() for what was started, test() it now and then, or have hymn's "
                         "progress thread drive it (HYMN_PROGRESS_THREAD=1); or allow more time"
      : missing.apart.empty()
          ? "look for a rank that has failed, or has not made this call; or allow more time"
          : "make the same calls in the same order on all ranks: type, count, dtype, operation and "
            "root must agree";
  const std::string& dumps = world_.settings.config.dump;
  remedy += dumps.empty() ? "; HYMN_DUMP=trace. writes dumps, which `hymn trace trace.` explains"
                          : fmt::format("; `hymn trace {}` tells more", dumps);
  return remedy;
}

std::exception_ptr GroupInquiry::timeout_error(const PendingOp& op, Duration waited, Timeout limit,
                                               bool gives_up) const {
  ErrorContext where = members_.context(title_of(op));
  // Before anything is changed by what follows.
  if (gives_up)
    world_.incidents.report(
        {"timeout", fmt::format("{} of group '{}' has not completed after {:.3f} s", title_of(op),
                                members_.label(), seconds(waited))});
  const Duration patience = share_of(limit, longest_question);
  MissingRanks missing =
      find_missing(op, world_.inquiry.ask(inquiry_about(op), awaited_in(op), patience),
                   share_of(limit, longest_closer_look));
  world_.inquiry.follow_waits(missing, time_in_wait(op, waited), patience);
  where.remedy = remedy_for(missing);
  where.missing = std::move(missing.ranks);
  if (!missing.words.empty()) missing.words += "; ";
  if (const std::string trouble = world_.trouble_with(awaited_in(op)); !trouble.empty())
    missing.words += trouble + "; ";
  const std::string_view what_follows = !gives_up ? "the operation is still in flight"
                                        : is_collective(op.type) ? "the group is given up"
                                                                 : "the call is given up";
  return std::make_exception_ptr(TimeoutError(
      fmt::format(
          "{} of group '{}' has not completed on rank {} after {:.3f} s (limit {:.3f} s); {}{}",
          title_of(op), members_.label(), world_.rank(), seconds(waited), seconds(limit.duration()),
          missing.words, what_follows),
      waited, std::move(where)));
}

// What was started long ago may be waited for only since now.
Duration GroupInquiry::time_in_wait(const PendingOp& op, Duration in_flight) const {
  const auto own = own_call(op);
  // Who only tests it waits for nobody.
  if (own && !own->waited_for) return Duration::zero();
  if (!own || own->waited_since == 0) return in_flight;
  const OwnWait wait = hymn::awaited_in(world_.recorder.view(), *own);
  return std::min(in_flight, Duration(std::chrono::milliseconds(wait.milliseconds)));
}

PendingOp GroupInquiry::pending_in(const CallRecord& call) const {
  const int peer = has_tag(call.type) && call.peer >= 0 ? members_.find_rank(call.peer) : -1;
  return {call.type, call.sequence, peer};
}

std::pair<Inquiry, std::vector<int>> GroupInquiry::whom_to_ask(const PendingOp& op) const {
  Inquiry inquiry = inquiry_about(op);
  inquiry.sites = true;
  return {inquiry, awaited_in(op)};
}

std::string GroupInquiry::wait_report(const CallRecord& call, std::vector<ProgressReport> reports,
                                      Duration waited) const {
  const PendingOp op = pending_in(call);
  const MissingRanks missing = missing_of(op, std::move(reports));
  return fmt::format(
      "{} of group '{}' has waited {:.1f} s on rank {}; {}; `hymn trace --live {}` "
      "tells more",
      title_of(op), members_.label(), seconds(waited), world_.rank(), missing.words, getpid());
}

std::exception_ptr GroupInquiry::missed_error(const PendingOp& op,
                                              const TimeoutError& error) const {
  const auto& missing = error.context().missing;
  MissingRanks found;
  found.ranks = missing;
  found.reports = world_.inquiry.ask(inquiry_about(op), missing, longest_question);
  world_.inquiry.find_sites(
      std::span(found.reports).first(std::min(found.reports.size(), most_looked_at)),
      inquiry_about(op), longest_closer_look);
  std::vector<std::string> words;
  for (const ProgressReport& report : found.reports)
    words.push_back(
        fmt::format("{} has not entered it: {}", world_.peers.name_of(report.rank), report.doing));
  if (words.empty())
    for (const int rank : missing) words.push_back(world_.peers.name_of(rank));
  found.words = some_of(std::move(words));
  world_.inquiry.follow_waits(found, error.waited(), longest_question);
  ErrorContext where = error.context();
  where.missing = std::move(found.ranks);
  return std::make_exception_ptr(TimeoutError(
      fmt::format("{} of group '{}' has not begun on rank {} after {:.3f} s; missing: {}; the "
                  "group is given up",
                  title_of(op), members_.label(), world_.rank(), seconds(error.waited()),
                  found.words),
      error.waited(), std::move(where)));
}

}  // namespace hymn::detail
