// Who has not entered a collective that others wait in, and what it does in their place.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tools/trace/absence.hpp"
#include "tools/trace/verdict.hpp"
#include "tools/trace/words.hpp"

namespace hymn::trace {

namespace {

Absence absence_from(const Case& all, const Wait& wait, int rank) {
  const Absence absence = absence_of(all.job, rank);
  const bool knows_group = wait.group->member(rank)->knows_group();
  return absence == Absence::busy && !knows_group ? Absence::no_group : absence;
}

std::string missing_title(const Case& all, const Wait& wait, Absence absence,
                          const std::vector<int>& ranks) {
  const std::string whose = who(all.job, ranks);
  const std::string what = wait.what();
  const bool has_dump = all.job.dump(ranks[0]) != nullptr;
  switch (absence) {
    case Absence::dead:
      return has_dump ? fmt::format("{} died before entering {}", whose, what)
                      : fmt::format("{} died, and is waited for in {}", whose, what);
    case Absence::lost:
      return fmt::format("{} cannot be reached, and is waited for in {}", whose, what);
    case Absence::stalled:
      return fmt::format("{} {} stopped, and never entered {}", whose,
                         ranks.size() == 1 ? "is" : "are", what);
    case Absence::left:
      return fmt::format("{} left the job {}without entering {}", whose,
                         has_left_by_error(all.job, ranks[0]) ? "because of an error, " : "", what);
    case Absence::no_group:
    case Absence::busy:
      break;
  }
  return fmt::format("{} never entered {}", whose, what);
}

std::string group_line(const Wait& wait) {
  return wait.group->aborted.empty()
             ? ""
             : fmt::format("group '{}' was given up: {}", wait.group->label, wait.group->aborted);
}

Finding missing_finding(const Case& all, const Wait& wait, Absence absence,
                        const std::vector<int>& ranks) {
  Finding finding = finding_about(FindingKind::missing, wait);
  finding.culprits = ranks;
  finding.title = missing_title(all, wait, absence, ranks);
  finding.details = where_lines(all.job, ranks);
  if (absence == Absence::no_group)
    finding.details.emplace_back("it does not know the group: it has not made it, or destroyed it");
  finding.details.push_back(waiting_text(wait));
  if (!wait.unknown.empty())
    finding.details.push_back(fmt::format(
        "of {} nothing tells whether it has entered: no dump, or one made earlier than the others",
        ranks_text(wait.unknown)));
  if (std::string line = group_line(wait); !line.empty()) finding.details.push_back(line);
  finding.advice = advice_for(all.job, absence, ranks);
  finding.is_aftermath =
      std::ranges::all_of(ranks, [&](int rank) { return has_left_by_error(all.job, rank); });
  return finding;
}

// Nobody is proven to be missing, but some may be.
Finding suspicion(const Case& all, const Wait& wait) {
  Finding finding = finding_about(FindingKind::missing, wait);
  finding.culprits = wait.unknown;
  finding.title = fmt::format("{} may be missing from {}", who(all.job, wait.unknown), wait.what());
  const bool has_dump = all.job.dump(wait.unknown[0]) != nullptr;
  finding.details.push_back(
      has_dump ? "its dump was made before it came there, as what others have completed proves"
               : "there is no dump of it; all members of whom there is one have entered");
  finding.details.push_back(waiting_text(wait));
  finding.advice = "make a dump of it, or look at it with a debugger";
  return finding;
}

// Whoever has run out of input waits in nothing for those that have not: so no wait tells of it.
std::vector<Finding> find_idle(const Case& all, const Group& group) {
  std::vector<int> shadows;
  std::vector<int> others;
  for (const Member& member : group.members) {
    if (all.job.fate(member.rank).kind != Fate::Kind::alive) return {};
    if (member.config == nullptr) continue;
    (member.config->shadows_since ? shadows : others).push_back(member.rank);
  }
  const bool has_wait = std::ranges::any_of(all.waits, [&](const Wait& wait) {
    return wait.group == &group && !wait.is_p2p && wait.making == nullptr;
  });
  if (group.aborted.empty() || shadows.empty() || others.empty() || has_wait) return {};
  Finding finding;
  finding.kind = FindingKind::missing;
  finding.group_uid = group.uid;
  finding.group_label = group.label;
  finding.culprits = others;
  finding.waiting = shadows;
  finding.title = fmt::format("{} {} more input, but {} no call on group '{}'",
                              who(all.job, others), others.size() == 1 ? "has" : "have",
                              others.size() == 1 ? "makes" : "make", group.label);
  finding.details = where_lines(all.job, others);
  finding.details.push_back(fmt::format("{} {} run out of input, and would shadow it: {}",
                                        ranks_text(shadows), shadows.size() == 1 ? "has" : "have",
                                        group.aborted));
  finding.advice = advice_for(all.job, Absence::busy, others);
  finding.is_consequence = std::ranges::all_of(
      others, [&](int rank) { return !all.waits_of[static_cast<std::size_t>(rank)].empty(); });
  return {finding};
}

}  // namespace

std::vector<Finding> find_missing(const Case& all) {
  std::vector<Finding> findings;
  for (const Wait& wait : all.waits) {
    if (wait.is_p2p || wait.making != nullptr) continue;
    // Those who wait themselves are told apart from those who keep all others waiting.
    std::map<std::pair<bool, Absence>, std::vector<int>> by_absence;
    for (const int rank : wait.missing) {
      const Absence absence = absence_from(all, wait, rank);
      const bool waits = !all.waits_of[static_cast<std::size_t>(rank)].empty();
      by_absence[{absence == Absence::busy && waits, absence}].push_back(rank);
    }
    for (const auto& [key, ranks] : by_absence) {
      findings.push_back(missing_finding(all, wait, key.second, ranks));
      findings.back().is_consequence = key.first;
    }
    const bool is_worth_it = wait.is_fault && wait.missing.empty();
    if (is_worth_it && !wait.unknown.empty()) findings.push_back(suspicion(all, wait));
  }
  for (const Group& group : all.job.groups())
    for (Finding& finding : find_idle(all, group)) findings.push_back(std::move(finding));
  return findings;
}

}  // namespace hymn::trace
