// Collectives that all members have entered, alike as far as the dumps tell, and do not leave.
#include <fmt/format.h>

#include <algorithm>

#include "tools/trace/verdict.hpp"
#include "tools/trace/words.hpp"

namespace hymn::trace {

namespace {

/// Members that have entered but will not go on by themselves.
std::vector<int> ranks_gone(const Case& all, const Wait& wait, Fate::Kind& kind) {
  std::vector<int> gone;
  kind = Fate::Kind::alive;
  for (const Member& member : wait.group->members)
    kind = std::max(kind, all.job.fate(member.rank).kind);
  for (const Member& member : wait.group->members)
    if (kind != Fate::Kind::alive && all.job.fate(member.rank).kind == kind)
      gone.push_back(member.rank);
  return gone;
}

// Who has entered and now does something else: its part of the operation may move only in a call.
std::vector<int> ranks_elsewhere(const Case& all, const Wait& wait) {
  std::vector<int> elsewhere;
  for (const Waiter& waiter : wait.waiters)
    if (whereabouts(all.job, waiter.rank).kind != Whereabouts::Kind::in_operation)
      elsewhere.push_back(waiter.rank);
  return elsewhere;
}

// Of these that is certain.
std::vector<int> ranks_undriven(const Wait& wait) {
  std::vector<int> undriven;
  for (const Waiter& waiter : wait.waiters)
    if (waiter.entry != nullptr && waiter.entry->undriven) undriven.push_back(waiter.rank);
  return undriven;
}

std::vector<int> ranks_failed(const Wait& wait) {
  std::vector<int> failed;
  for (const Waiter& waiter : wait.waiters)
    if (waiter.entry != nullptr && waiter.entry->state == EntryState::failed)
      failed.push_back(waiter.rank);
  return failed;
}

std::string_view fate_words(Fate::Kind kind) {
  switch (kind) {
    case Fate::Kind::dead:
      return "died in or after";
    case Fate::Kind::lost:
      return "can no longer be reached, and was last in";
    case Fate::Kind::stalled:
      return "is stopped in or after";
    case Fate::Kind::left:
      return "left the job in or after";
    case Fate::Kind::alive:
      break;
  }
  return "";
}

}  // namespace

std::vector<Finding> find_stuck(const Case& all) {
  std::vector<Finding> findings;
  const Group* told = nullptr;  // what comes after the first one in a group may follow from it
  for (const Wait& wait : all.waits) {
    if (wait.is_p2p || wait.making != nullptr || !wait.is_fault || wait.group == told) continue;
    if (!wait.missing.empty() || !wait.unknown.empty()) continue;
    Finding finding = finding_about(FindingKind::stuck, wait);
    const std::string what = wait.what();
    Fate::Kind kind = Fate::Kind::alive;
    finding.culprits = ranks_gone(all, wait, kind);
    if (kind != Fate::Kind::alive) {
      finding.title =
          fmt::format("{} {} {}", who(all.job, finding.culprits), fate_words(kind), what);
      const std::string& detail = all.job.fate(finding.culprits[0]).detail;
      if (!detail.empty()) finding.details.push_back(detail);
    } else if (const std::vector<int> failed = ranks_failed(wait); !failed.empty()) {
      finding.title = fmt::format("{} failed on {}", what, ranks_text(failed));
    } else {
      finding.title = fmt::format("{} does not complete, though all members have entered it", what);
    }
    finding.details.push_back(waiting_text(wait));
    const std::vector<int> elsewhere = ranks_elsewhere(all, wait);
    const std::vector<int> undriven = ranks_undriven(wait);
    const bool is_undriven = finding.culprits.empty() && ranks_failed(wait).empty() &&
                             !undriven.empty() && undriven.size() < wait.waiters.size();
    if (is_undriven) {
      finding.culprits = undriven;
      finding.title = fmt::format("{} started {}, and {} not progress it", who(all.job, undriven),
                                  what, undriven.size() == 1 ? "does" : "do");
    }
    if (kind == Fate::Kind::alive && !elsewhere.empty() && elsewhere.size() < wait.waiters.size())
      finding.details.push_back(fmt::format(
          "{} started it and {} in no call now that would progress it: {}", ranks_text(elsewhere),
          elsewhere.size() == 1 ? "is" : "are", whereabouts(all.job, elsewhere[0]).text));
    if (!wait.group->aborted.empty())
      finding.details.push_back(fmt::format("the group was given up: {}", wait.group->aborted));
    finding.advice =
        is_undriven ? "wait() for what was started, test() it now and then, or let hymn's progress "
                      "thread drive it (HYMN_PROGRESS_THREAD=1)"
                    : "look for what carries the data: hymn doctor, the network, and ranks short "
                      "of processors";
    findings.push_back(std::move(finding));
    told = wait.group;
  }
  return findings;
}

}  // namespace hymn::trace
