// Who comes last again and again.
//
// Clocks of different hosts are not compared. In an operation that waits for all, who comes last
// waits least: the rank with the shortest duration, each by its own clock.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tools/trace/verdict.hpp"
#include "tools/trace/words.hpp"

namespace hymn::trace {

namespace {

constexpr std::size_t fewest_operations = 10;
constexpr double regular_share = 0.6;
constexpr double noticeable_ms = 0.1;

struct Last {
  int rank = -1;
  double others_waited_ms = 0;  ///< the median of the others' durations beyond its own
};

/// Who came last to one place in a group's order. None: not all durations are known, or nobody was
/// late enough to be told from the others.
std::optional<Last> last_at(const Group& group, std::int64_t sequence) {
  std::vector<double> durations;
  Last last;
  double shortest = 0;
  for (const Member& member : group.members) {
    const Entry* entry = member.find(sequence);
    if (entry == nullptr || entry->state != EntryState::completed || !entry->duration_ms ||
        *entry->duration_ms < 0 || !waits_for_all(entry->op))
      return std::nullopt;
    if (last.rank < 0 || *entry->duration_ms < shortest) {
      shortest = *entry->duration_ms;
      last.rank = member.rank;
    }
    durations.push_back(*entry->duration_ms);
  }
  if (durations.size() < 2) return std::nullopt;
  std::sort(durations.begin(), durations.end());
  const double median = durations[durations.size() / 2];
  last.others_waited_ms = median - shortest;
  const bool is_clear = last.others_waited_ms > noticeable_ms && median > 2 * shortest;
  return is_clear ? std::optional(last) : std::nullopt;
}

}  // namespace

std::vector<Finding> find_slow(const Case& all) {
  std::vector<Finding> findings;
  for (const Group& group : all.job.groups()) {
    if (group.members.size() < 2 || group.members.front().dump == nullptr) continue;
    std::map<int, std::vector<double>> lateness;
    std::size_t looked_at = 0;
    for (const Entry* entry : group.members.front().collectives) {
      if (!entry->duration_ms) continue;
      ++looked_at;
      if (const auto last = last_at(group, entry->collective_seq))
        lateness[last->rank].push_back(last->others_waited_ms);
    }
    for (auto& [rank, times] : lateness) {
      const bool is_regular =
          static_cast<double>(times.size()) >= regular_share * static_cast<double>(looked_at);
      if (times.size() < fewest_operations || !is_regular) continue;
      std::sort(times.begin(), times.end());
      Finding finding;
      finding.kind = FindingKind::slow;
      finding.is_fault = false;
      finding.group_uid = group.uid;
      finding.group_label = group.label;
      finding.culprits = {rank};
      finding.title = fmt::format("{} came last to {} of the last {} operations of group '{}'",
                                  who(all.job, {rank}), times.size(), looked_at, group.label);
      finding.details.push_back(
          fmt::format("the others typically waited {:.1f} ms for it", times[times.size() / 2]));
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace hymn::trace
