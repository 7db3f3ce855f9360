#include "tools/trace/absence.hpp"

#include <fmt/format.h>

#include <map>

#include "tools/trace/words.hpp"

namespace hymn::trace {

namespace {

constexpr std::size_t most_missing_lines = 6;

}  // namespace

Absence absence_of(const Job& job, int rank) {
  switch (job.fate(rank).kind) {
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
  return Absence::busy;
}

bool has_left_by_error(const Job& job, int rank) {
  const Fate& fate = job.fate(rank);
  return fate.kind == Fate::Kind::left &&
         fate.detail.find("because of an error") != std::string::npos;
}

std::string advice_for(const Job& job, Absence absence, const std::vector<int>& ranks) {
  const Dump* dump = job.dump(ranks[0]);
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
      if (has_left_by_error(job, ranks[0]))
        return "look for that error in what it has written: it came first";
      return "the ranks disagree about how much there is to do: compare how often each calls";
    case Absence::no_group:
      return "the group has to be made, and kept, on all of its ranks";
    case Absence::busy:
      break;
  }
  return "see what keeps " + there;
}

std::vector<std::string> where_lines(const Job& job, const std::vector<int>& ranks) {
  std::map<std::string, std::vector<int>> by_text;
  for (const int rank : ranks) {
    const Fate& fate = job.fate(rank);
    const std::string text = whereabouts(job, rank).text;
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

}  // namespace hymn::trace
