// Who has died, how, in the middle of what, and who waits for it.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "tools/trace/verdict.hpp"
#include "tools/trace/words.hpp"

namespace hymn::trace {

namespace {

constexpr std::size_t most_death_lines = 6;

// The operation that it was in when it died, by its own dump.
const Wait* last_wait_of(const Case& all, int rank) {
  const std::vector<std::size_t>& waits = all.waits_of[static_cast<std::size_t>(rank)];
  return waits.empty() ? nullptr : &all.waits[waits.front()];
}

std::string where_text(const Case& all, int rank) {
  if (all.job.dump(rank) == nullptr) return "there is no dump of it";
  const Whereabouts where = whereabouts(all.job, rank);
  if (where.kind == Whereabouts::Kind::outside) return "outside any operation; " + where.text;
  const Dump* dump = all.job.dump(rank);
  for (auto entry = dump->entries.rbegin(); entry != dump->entries.rend(); ++entry)
    if (!entry->retired && entry->state != EntryState::completed)
      return fmt::format("inside {}{}",
                         of_group(call_name(*entry, rank), all.job.label(entry->group)),
                         at_site(entry->site));
  return where.text;
}

// Who waits in an operation that a dead rank has not entered, or has died in.
void add_waiters(const Case& all, Finding& finding) {
  std::size_t told = 0;
  for (const Wait& wait : all.waits) {
    const bool concerns =
        std::any_of(finding.culprits.begin(), finding.culprits.end(), [&](int rank) {
          const bool lacks =
              std::find(wait.missing.begin(), wait.missing.end(), rank) != wait.missing.end() ||
              std::find(wait.unknown.begin(), wait.unknown.end(), rank) != wait.unknown.end();
          return lacks || wait.has(rank);
        });
    if (!concerns) continue;
    Wait others = wait;
    std::erase_if(others.waiters, [&](const Waiter& waiter) {
      return std::find(finding.culprits.begin(), finding.culprits.end(), waiter.rank) !=
             finding.culprits.end();
    });
    if (others.waiters.empty()) continue;
    const std::vector<int> ranks = others.ranks();
    finding.waiting.insert(finding.waiting.end(), ranks.begin(), ranks.end());
    finding.waited_seconds = std::max(finding.waited_seconds, others.longest);
    if (finding.op.empty()) {
      name_wait(finding, wait);
    }
    if (++told > most_death_lines) continue;
    finding.details.push_back(fmt::format("{} in {}", waiting_text(others), wait.what()));
  }
  std::sort(finding.waiting.begin(), finding.waiting.end());
  finding.waiting.erase(std::unique(finding.waiting.begin(), finding.waiting.end()),
                        finding.waiting.end());
  if (told == 0) finding.details.emplace_back("nobody waits for it, as far as the dumps tell");
}

// "rank 2 (nodeB, pid 4713) was killed by signal 9 (SIGKILL)"
std::string death_title(const Case& all, bool died, const std::string& detail,
                        const std::vector<int>& ranks) {
  constexpr std::string_view of_process = "its process ";
  const std::string whose = who(all.job, ranks);
  if (died && ranks.size() == 1 && detail.starts_with(of_process))
    return fmt::format("{} {}", whose, detail.substr(of_process.size()));
  return fmt::format("{} {}{}{}", whose, died ? "died" : "cannot be reached",
                     detail.empty() ? "" : ": ", detail);
}

Finding death_finding(const Case& all, Fate::Kind kind, const std::string& detail,
                      const std::vector<int>& ranks) {
  Finding finding;
  finding.kind = FindingKind::death;
  finding.culprits = ranks;
  const bool died = kind == Fate::Kind::dead;
  finding.title = death_title(all, died, detail, ranks);
  std::map<std::string, std::vector<int>> places;
  for (const int rank : ranks) places[where_text(all, rank)].push_back(rank);
  for (const auto& [text, same] : places) {
    if (finding.details.size() == most_death_lines) break;
    finding.details.push_back(ranks.size() == 1 ? text
                                                : fmt::format("{}: {}", ranks_text(same), text));
  }
  if (const Wait* wait = last_wait_of(all, ranks[0])) {
    name_wait(finding, *wait);
  }
  add_waiters(all, finding);
  finding.advice = died ? "look for what ended it: its log, its core, the kernel's log (out of "
                          "memory), the launcher's or batch system's"
                        : "see whether its host is up and its network works: hymn doctor";
  return finding;
}

}  // namespace

std::vector<Finding> find_deaths(const Case& all) {
  // Those of one host that ended alike have one finding.
  std::map<std::tuple<Fate::Kind, std::string, std::string>, std::vector<int>> alike;
  for (const auto& [rank, fate] : all.job.fates())
    if (fate.kind == Fate::Kind::dead || fate.kind == Fate::Kind::lost)
      alike[{fate.kind, host_of(all.job, rank), fate.detail}].push_back(rank);
  std::vector<Finding> findings;
  for (const auto& [key, ranks] : alike)
    findings.push_back(death_finding(all, std::get<0>(key), std::get<2>(key), ranks));
  return findings;
}

}  // namespace hymn::trace
