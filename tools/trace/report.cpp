// The verdict as text: first what is wrong, then what was looked at.
#include "tools/trace/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "tools/trace/waits.hpp"
#include "tools/trace/words.hpp"
#include "tools/words.hpp"

namespace hymn::trace {

namespace {

constexpr std::size_t most_findings = 20;
constexpr std::size_t most_reasons = 4;
constexpr std::size_t most_notes = 20;

std::string finding_text(std::size_t number, const Finding& finding) {
  std::string text = fmt::format("{}. {}: {}\n", number, to_string(finding.kind), finding.title);
  for (const std::string& detail : finding.details) text += fmt::format("     {}\n", detail);
  if (!finding.advice.empty()) text += fmt::format("     next: {}\n", finding.advice);
  return text;
}

std::vector<int> ranks_without_dump(const Job& job) {
  std::vector<int> ranks;
  for (int rank = 0; rank < job.world_size(); ++rank)
    if (job.dump(rank) == nullptr) ranks.push_back(rank);
  return ranks;
}

std::string times_text(const Job& job) {
  const auto [first, last] =
      std::minmax_element(job.dumps().begin(), job.dumps().end(),
                          [](const Dump& a, const Dump& b) { return a.time_ns < b.time_ns; });
  const std::string from = clock_text(first->time_ns);
  const std::string to = clock_text(last->time_ns);
  return from == to ? from : fmt::format("{} to {}", from, to);
}

std::string looked_at_text(const Job& job) {
  std::set<std::string> hosts;
  std::size_t operations = 0;
  std::vector<int> without;
  for (const Dump& dump : job.dumps()) {
    if (!dump.host.empty()) hosts.insert(dump.host);
    operations += dump.entries.size();
    if (!dump.has_entries) without.push_back(dump.rank);
  }
  const Dump& first = job.dumps().front();
  const bool is_live = first.trigger == "live";
  std::string text =
      fmt::format("looked at: {} of {} of {}{}{}{}\n", is_live ? "records" : "dumps",
                  job.dumps().size(), counted(static_cast<std::size_t>(job.world_size()), "rank"),
                  first.program.empty() ? "" : " of " + first.program,
                  first.job.empty() ? "" : " (job " + first.job + ")",
                  hosts.empty() ? "" : ", " + counted(hosts.size(), "host"));
  text += fmt::format("           {} in {}, {} {}\n", counted(operations, "operation"),
                      counted(job.groups().size(), "group"), is_live ? "read" : "dumped",
                      times_text(job));
  if (const std::vector<int> absent = ranks_without_dump(job); !absent.empty())
    text += is_live ? fmt::format("           no records of {}: other hosts, or ended\n",
                                  ranks_text(absent))
                    : fmt::format("           no dump of {}\n", ranks_text(absent));
  if (!without.empty())
    text += fmt::format("           no operations in the dumps of {}: only their counts\n",
                        ranks_text(without));
  return text;
}

// Why the dumps were made, those for one reason together.
std::string reasons_text(const Job& job) {
  std::map<std::pair<std::string, std::string>, std::vector<int>> ranks;
  for (const Dump& dump : job.dumps())
    if (dump.trigger != "live" && (!dump.trigger.empty() || !dump.reason.empty()))
      ranks[{dump.trigger, dump.reason}].push_back(dump.rank);
  std::string text;
  std::size_t told = 0;
  for (const auto& [why, same] : ranks) {
    if (told++ == most_reasons) {
      text += fmt::format("           … and for {} more reasons\n", ranks.size() - most_reasons);
      break;
    }
    const bool both = !why.first.empty() && !why.second.empty();
    text += fmt::format("  {}{}: {}{}{}\n", told == 1 ? "reasons: " : "         ", ranks_text(same),
                        why.first, both ? ": " : "", why.second);
  }
  return text;
}

std::string notes_text(const std::vector<FileNote>& notes) {
  std::string text;
  for (std::size_t i = 0; i < notes.size(); ++i) {
    if (i == most_notes) return text + fmt::format("note: … and {} more\n", notes.size() - i);
    text += fmt::format("note: {}{}: {}\n", printable(notes[i].file),
                        notes[i].is_lost ? " is not used" : "", notes[i].text);
  }
  return text;
}

// What is on its way is no fault, but good to know when nothing else is found.
std::string on_their_way_text(const Job& job) {
  const std::vector<Wait> waits = find_waits(job);
  if (waits.empty()) return "           nothing was on the way\n";
  double longest = 0;
  for (const Wait& wait : waits) longest = std::max(longest, wait.longest);
  return fmt::format("           on the way: {}, for {} at most\n",
                     counted(waits.size(), "operation"), seconds_text(longest));
}

}  // namespace

bool has_fault(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.is_fault; });
}

std::string report_text(const Job& job, const std::vector<Finding>& findings,
                        const std::vector<FileNote>& notes) {
  std::string text;
  if (!has_fault(findings))
    text += job.in_trouble() ? "no fault found in the operations, though the dumps were made "
                               "because of one: see the reasons below\n"
                             : "no fault found\n";
  for (std::size_t i = 0; i < findings.size(); ++i) {
    if (i == most_findings) {
      text += fmt::format("… and {} more (--json has all)\n", findings.size() - i);
      break;
    }
    text += finding_text(i + 1, findings[i]);
  }
  text += "\n" + looked_at_text(job);
  if (!has_fault(findings)) text += on_their_way_text(job);
  return text + reasons_text(job) + notes_text(notes);
}

}  // namespace hymn::trace
