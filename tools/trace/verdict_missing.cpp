// Who has not entered a collective that others wait in, and what it does in their place.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tools/trace/verdict.hpp"
#include "tools/trace/words.hpp"

namespace hymn::trace {

namespace {

constexpr std::size_t most_missing_lines = 6;

/// Why a rank is not there. What is told of one kind has one finding.
enum class Absence : std::uint8_t {
  dead,
  lost,
  stalled,
  left,
  no_group,  ///< it does not know the group: not made yet, or destroyed
  busy,      ///< alive, and in another operation, another call, or in none
};

Absence absence_of(const Case& all, const Wait& wait, int rank) {
  switch (all.job.fate(rank).kind) {
    case Fate::Kind::dead:
      return Absence::dead;
    case Fate::Kind::lost:
      return Absence::lost;
    case Fate::Kind::stalled:
      return Absence::stalled;
    case Fate::Kind::left:
      return Absence::left;
    case Fate::Kind::alive:
      break;
  }
  const Member* member = wait.group->member(rank);
  return member->knows_group() ? Absence::busy : Absence::no_group;
}

bool has_left_by_error(const Case& all, int rank) {
  const Fate& fate = all.job.fate(rank);
  return fate.kind == Fate::Kind::left &&
         fate.detail.find("because of an error") != std::string::npos;
}

std::string missing_title(const Case& all, const Wait& wait, Absence absence,
                          const std::vector<int>& ranks) {
  const std::string whose = who(all.job, ranks);
  const std::string what = of_group(wait.name, wait.group->label);
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
                         has_left_by_error(all, ranks[0]) ? "because of an error, " : "", what);
    case Absence::no_group:
    case Absence::busy:
      break;
  }
  return fmt::format("{} never entered {}", whose, what);
}

std::string advice_for(const Case& all, Absence absence, const std::vector<int>& ranks) {
  const Dump* dump = all.job.dump(ranks[0]);
  const std::string there = dump == nullptr || dump->pid <= 0
                                ? fmt::format("rank {}", ranks[0])
                                : fmt::format("rank {}: gdb -p {}{}", ranks[0], dump->pid,
                                              dump->host.empty() ? "" : " on " + dump->host);
  switch (absence) {
    case Absence::dead:
    case Absence::lost:
      return "look for what ended it: its host, its log, the kernel's log, the launcher's";
    case Absence::stalled:
      return "look for who stopped it: a debugger, a batch system that suspends jobs, SIGSTOP";
    case Absence::left:
      if (has_left_by_error(all, ranks[0]))
        return "look for that error in what it has written: it came first";
      return "the ranks disagree about how much there is to do: compare how often each calls";
    case Absence::no_group:
      return "the group has to be made, and kept, on all of its ranks";
    case Absence::busy:
      break;
  }
  return "see what keeps " + there;
}

// "ranks 3-4: it is in …", those that do the same in one line.
std::vector<std::string> where_lines(const Case& all, const std::vector<int>& ranks) {
  std::map<std::string, std::vector<int>> by_text;
  for (const int rank : ranks) {
    const Fate& fate = all.job.fate(rank);
    const std::string text = whereabouts(all.job, rank).text;
    by_text[fate.detail.empty() ? text : fmt::format("{}; {}", fate.detail, text)].push_back(rank);
  }
  if (by_text.size() == 1) return {by_text.begin()->first};
  std::vector<std::string> lines;
  for (const auto& [text, same] : by_text) {
    if (lines.size() == most_missing_lines) {
      lines.push_back(fmt::format("… and {} more", by_text.size() - most_missing_lines));
      break;
    }
    lines.push_back(fmt::format("{}: {}", ranks_text(same), text));
  }
  return lines;
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
  finding.details = where_lines(all, ranks);
  if (absence == Absence::no_group)
    finding.details.emplace_back("it does not know the group: it has not made it, or destroyed it");
  finding.details.push_back(waiting_text(wait));
  if (!wait.unknown.empty())
    finding.details.push_back(fmt::format(
        "of {} nothing tells whether it has entered: no dump, or one made earlier than the others",
        ranks_text(wait.unknown)));
  if (std::string line = group_line(wait); !line.empty()) finding.details.push_back(line);
  finding.advice = advice_for(all, absence, ranks);
  finding.is_aftermath =
      std::ranges::all_of(ranks, [&](int rank) { return has_left_by_error(all, rank); });
  return finding;
}

// Nobody is proven to be missing, but some may be.
Finding suspicion(const Case& all, const Wait& wait) {
  Finding finding = finding_about(FindingKind::missing, wait);
  finding.culprits = wait.unknown;
  finding.title = fmt::format("{} may be missing from {}", who(all.job, wait.unknown),
                              of_group(wait.name, wait.group->label));
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
  const bool has_wait = std::ranges::any_of(
      all.waits, [&](const Wait& wait) { return wait.group == &group && !wait.is_p2p; });
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
  finding.details = where_lines(all, others);
  finding.details.push_back(fmt::format("{} {} run out of input, and would shadow it: {}",
                                        ranks_text(shadows), shadows.size() == 1 ? "has" : "have",
                                        group.aborted));
  finding.advice = advice_for(all, Absence::busy, others);
  finding.is_consequence = std::ranges::all_of(
      others, [&](int rank) { return !all.waits_of[static_cast<std::size_t>(rank)].empty(); });
  return {finding};
}

}  // namespace

std::vector<Finding> find_missing(const Case& all) {
  std::vector<Finding> findings;
  for (const Wait& wait : all.waits) {
    if (wait.is_p2p) continue;
    // Those who wait themselves are told apart from those who keep all others waiting.
    std::map<std::pair<bool, Absence>, std::vector<int>> by_absence;
    for (const int rank : wait.missing) {
      const Absence absence = absence_of(all, wait, rank);
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
