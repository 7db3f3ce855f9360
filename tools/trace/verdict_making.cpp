// Who has not come to make or shrink a group, or to end the world, with the others.
#include <fmt/format.h>

#include <algorithm>

#include "tools/trace/absence.hpp"
#include "tools/trace/verdict.hpp"
#include "tools/trace/words.hpp"

namespace hymn::trace {

namespace {

// The words of the library's own reports.
std::string purpose_of(const Case& all, const Wait& wait) {
  if (wait.op == "shrink")
    return fmt::format("shrinking group '{}'",
                       wait.group == nullptr ? wait.making->uid : wait.group->label);
  if (wait.op == "end") return "ending the world";
  return "making " + new_group_text(all.job, *wait.making);
}

std::string whom_it_lacks(const Case& all, const Wait& wait) {
  if (!wait.missing.empty()) return "; missing: " + who(all.job, wait.missing);
  if (!wait.unknown.empty()) return "; perhaps missing: " + who(all.job, wait.unknown);
  return wait.op == "new_group" && !wait.making->ranks ? "; who else belongs to it is not known"
                                                       : "; all have come";
}

Finding making_finding(const Case& all, const Wait& wait) {
  Finding finding = finding_about(FindingKind::making, wait);
  finding.culprits = wait.missing.empty() ? wait.unknown : wait.missing;
  finding.title =
      fmt::format("{} has waited {} on {}{}", purpose_of(all, wait), seconds_text(wait.longest),
                  ranks_text(finding.waiting), whom_it_lacks(all, wait));
  if (finding.culprits.empty()) {
    finding.advice =
        "look for what carries the data: hymn doctor, the network, and ranks short of "
        "processors";
    return finding;
  }
  finding.details = where_lines(all.job, finding.culprits);
  if (!wait.missing.empty() && !wait.unknown.empty())
    finding.details.push_back(
        fmt::format("of {} nothing tells whether it has come: no dump, or one made earlier than "
                    "the others",
                    ranks_text(wait.unknown)));
  // Who is only told for information may come at once.
  if (finding.is_fault)
    finding.advice =
        advice_for(all.job, absence_of(all.job, finding.culprits[0]), finding.culprits);
  finding.is_aftermath = std::ranges::all_of(
      finding.culprits, [&](int rank) { return has_left_by_error(all.job, rank); });
  finding.is_consequence = std::ranges::all_of(finding.culprits, [&](int rank) {
    return !all.waits_of[static_cast<std::size_t>(rank)].empty() &&
           absence_of(all.job, rank) == Absence::busy;
  });
  return finding;
}

}  // namespace

std::vector<Finding> find_unmade(const Case& all) {
  std::vector<Finding> findings;
  for (const Wait& wait : all.waits)
    if (wait.making != nullptr) findings.push_back(making_finding(all, wait));
  return findings;
}

}  // namespace hymn::trace
