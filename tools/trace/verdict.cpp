// Asks all verdicts, and leaves out what another finding explains.
#include "tools/trace/verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <tuple>

#include "tools/trace/words.hpp"

namespace hymn::trace {

namespace {

bool are_among(const std::vector<int>& some, const std::set<int>& all) {
  return !some.empty() &&
         std::all_of(some.begin(), some.end(), [&](int rank) { return all.contains(rank); });
}

std::set<int> culprits_of(const std::vector<Finding>& findings, FindingKind kind) {
  std::set<int> ranks;
  for (const Finding& finding : findings)
    if (finding.kind == kind) ranks.insert(finding.culprits.begin(), finding.culprits.end());
  return ranks;
}

// Of a rank that has died, its death is told with all who wait for it. A rank that is late since it
// waits itself is part of a chain or a circle.
void drop_explained(std::vector<Finding>& findings) {
  const std::set<int> dead = culprits_of(findings, FindingKind::death);
  const std::vector<Finding> all = findings;
  const auto is_mismatched = [&](const Finding& finding) {
    return std::any_of(all.begin(), all.end(), [&](const Finding& other) {
      const bool differs = other.kind == FindingKind::mismatch || other.kind == FindingKind::order;
      return differs && other.group_uid == finding.group_uid && !finding.is_p2p &&
             finding.sequence >= other.sequence;
    });
  };
  // What a rank does not come to is not moved on by it either.
  const auto lacks_somebody = [&](const Finding& finding) {
    return std::any_of(all.begin(), all.end(), [&](const Finding& other) {
      return other.kind == FindingKind::missing && !other.is_consequence &&
             other.group_uid == finding.group_uid;
    });
  };
  // Who waits for a message that never fits comes to nothing else.
  std::set<int> in_messages;
  for (const Finding& finding : all)
    if (finding.kind == FindingKind::p2p && finding.sides.size() == 2)
      in_messages.insert(finding.waiting.begin(), finding.waiting.end());
  // Who was told of a failure, and went, is not its cause.
  const bool has_cause = std::ranges::any_of(
      all, [](const Finding& finding) { return finding.is_fault && !finding.is_aftermath; });
  std::erase_if(findings, [&](const Finding& finding) {
    switch (finding.kind) {
      case FindingKind::missing:
      case FindingKind::p2p:
        return finding.is_consequence || (finding.is_aftermath && has_cause) ||
               (finding.kind == FindingKind::missing && are_among(finding.culprits, in_messages)) ||
               are_among(finding.culprits, dead) || is_mismatched(finding);
      case FindingKind::making:
        return finding.is_consequence || (finding.is_aftermath && has_cause) ||
               are_among(finding.culprits, dead);
      case FindingKind::stuck:
        return are_among(finding.culprits, dead) || is_mismatched(finding) ||
               lacks_somebody(finding);
      case FindingKind::death:
      case FindingKind::cycle:
      case FindingKind::order:
      case FindingKind::mismatch:
      case FindingKind::chain:
      case FindingKind::slow:
        break;
    }
    return false;
  });
}

}  // namespace

std::string_view to_string(FindingKind kind) {
  constexpr std::array<std::string_view, 10> names{
      "death", "cycle", "order", "mismatch", "missing", "making", "p2p", "stuck", "chain", "slow"};
  return names[static_cast<std::size_t>(kind)];
}

void name_wait(Finding& finding, const Wait& wait) {
  if (wait.group != nullptr) {
    finding.group_uid = wait.group->uid;
    finding.group_label = wait.group->label;
  } else if (wait.making->kind == "new_group" && wait.is_numbered) {
    finding.group_uid = wait.making->uid;
    finding.group_label = wait.making->uid;
  }
  finding.op = wait.op;
  finding.sequence = wait.sequence;
  finding.is_p2p = wait.is_p2p;
}

Finding finding_about(FindingKind kind, const Wait& wait) {
  Finding finding;
  finding.kind = kind;
  finding.is_fault = wait.is_fault;
  name_wait(finding, wait);
  finding.waiting = wait.ranks();
  finding.waited_seconds = wait.longest;
  return finding;
}

std::string waiting_text(const Wait& wait) {
  const bool one = wait.waiters.size() == 1;
  std::string text = ranks_text(wait.ranks()) + (one ? " has waited" : " have waited");
  text += wait.longest > 0 ? " " + seconds_text(wait.longest) : " for a time that is not known";
  text += at_site(wait.site());
  std::vector<int> shadows;
  for (const Waiter& waiter : wait.waiters)
    if (waiter.entry != nullptr && waiter.entry->shadowed) shadows.push_back(waiter.rank);
  return shadows.empty()
             ? text
             : fmt::format("{}; {} in the shadow of the others", text, ranks_text(shadows));
}

std::vector<Finding> judge(const Job& job) {
  const Case all(job);
  std::vector<Finding> findings;
  for (const auto& verdict : {find_deaths, find_cycles, find_mismatches, find_missing, find_unmade,
                              find_lonely, find_stuck, find_chains, find_slow}) {
    std::vector<Finding> found = verdict(all);
    std::move(found.begin(), found.end(), std::back_inserter(findings));
  }
  const bool has_fault = std::ranges::any_of(findings, &Finding::is_fault);
  // A job on its way always has somebody who has not come yet. Where dumps were made because of
  // trouble that nothing explains, it is told what they were made in.
  std::erase_if(findings, [&](const Finding& f) {
    const bool explains =
        f.kind == FindingKind::making && job.in_trouble() && !has_fault && !f.culprits.empty();
    return !f.is_fault && f.kind != FindingKind::slow && !explains;
  });
  drop_explained(findings);
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    return std::tuple(!a.is_fault, a.kind, -a.waited_seconds) <
           std::tuple(!b.is_fault, b.kind, -b.waited_seconds);
  });
  return findings;
}

}  // namespace hymn::trace
