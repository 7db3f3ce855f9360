// The last operations of each rank: of collectives one line for each place in a group's order and
// each way in which it was called there, with the ranks by how far they have come.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "tools/trace/report.hpp"
#include "tools/trace/words.hpp"

namespace hymn::trace {

namespace {

constexpr int not_entered = 4;
constexpr int not_recorded = 5;

std::string_view progress_words(int progress) {
  switch (progress) {
    case static_cast<int>(EntryState::scheduled):
      return "in flight";
    case static_cast<int>(EntryState::started):
      return "started";
    case static_cast<int>(EntryState::completed):
      return "completed";
    case static_cast<int>(EntryState::failed):
      return "failed";
    case not_entered:
      return "not entered";
    default:
      return "not recorded";
  }
}

std::string ranks_by_progress(const std::map<int, std::vector<int>>& ranks) {
  std::string text;
  for (const auto& [progress, same] : ranks)
    text +=
        fmt::format("{}{} {}", text.empty() ? "" : "; ", progress_words(progress), rank_list(same));
  return text;
}

std::string line(std::int64_t sequence, const std::string& call, const std::string& progress,
                 const std::string& site) {
  return fmt::format("  {:>8}  {:<40}  {}{}\n", fmt::format("#{}", sequence), call, progress,
                     site.empty() ? "" : "  " + site);
}

std::set<std::int64_t> last_places(const Group& group, std::size_t count) {
  std::set<std::int64_t> places;
  for (const Member& member : group.members) {
    const std::size_t here = member.collectives.size();
    for (std::size_t i = here - std::min(count, here); i < here; ++i)
      places.insert(member.collectives[i]->collective_seq);
  }
  return places;
}

std::string place_text(const Group& group, std::int64_t sequence) {
  std::map<std::string, std::map<int, std::vector<int>>> calls;
  std::map<std::string, std::string> sites;
  std::map<int, std::vector<int>> others;
  std::vector<int> shadows;
  for (const Member& member : group.members) {
    if (const Entry* entry = member.find(sequence)) {
      const std::string call = call_words(*entry);
      calls[call][static_cast<int>(entry->state)].push_back(member.rank);
      // A shadow's call is made by hymn itself.
      if (entry->shadowed)
        shadows.push_back(member.rank);
      else
        sites.try_emplace(call, site_text(entry->site));
    } else if (member.dump != nullptr) {
      others[member.entered < sequence ? not_entered : not_recorded].push_back(member.rank);
    }
  }
  std::string text;
  for (auto& [call, ranks] : calls) {
    if (text.empty()) ranks.insert(others.begin(), others.end());
    const bool first = text.empty();
    std::string progress = ranks_by_progress(ranks);
    if (first && !shadows.empty()) progress += "; shadowed by " + ranks_text(shadows);
    text += line(sequence, call, progress, sites[call]);
  }
  return text;
}

std::string messages_text(const Job& job, std::size_t count) {
  std::string text;
  for (const Dump& dump : job.dumps()) {
    std::vector<const Entry*> messages;
    for (auto entry = dump.entries.rbegin();
         entry != dump.entries.rend() && messages.size() < count; ++entry)
      if (entry->is_p2p) messages.push_back(&*entry);
    std::reverse(messages.begin(), messages.end());
    for (const Entry* entry : messages)
      text += fmt::format("  rank {}: {} in group '{}', {}: {}{}\n", dump.rank,
                          call_name(*entry, dump.rank), job.label(entry->group), call_words(*entry),
                          progress_words(static_cast<int>(entry->state)), at_site(entry->site));
  }
  return text.empty() ? "" : "\nsends and receives\n" + text;
}

}  // namespace

std::string last_text(const Job& job, std::size_t count) {
  std::string text;
  for (const Group& group : job.groups()) {
    const std::set<std::int64_t> places = last_places(group, count);
    if (places.empty()) continue;
    std::vector<int> ranks;
    for (const Member& member : group.members) ranks.push_back(member.rank);
    text += fmt::format("\ngroup '{}' ({})\n", group.label, ranks_text(ranks));
    for (const std::int64_t sequence : places) text += place_text(group, sequence);
  }
  return text + messages_text(job, count);
}

}  // namespace hymn::trace
