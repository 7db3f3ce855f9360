#include "tools/trace/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include "tools/trace/words.hpp"

namespace hymn::trace {

namespace {

constexpr int most_lanes = 3;

std::string remark_of(const Finding& finding) {
  const std::string what = fmt::format("{} #{}", finding.op, finding.sequence);
  switch (finding.kind) {
    case FindingKind::death:
      return "died, or is out of reach";
    case FindingKind::missing:
      return "never entered " + what;
    case FindingKind::making:
      return "has not come to " + (finding.op == "end" ? "the end of the world" : finding.op);
    case FindingKind::cycle:
      return "waits in a circle";
    case FindingKind::mismatch:
    case FindingKind::order:
      return fmt::format("differs from the others at #{}", finding.sequence);
    case FindingKind::p2p:
      return fmt::format("no partner for {} #{} of rank {}", finding.op, finding.sequence,
                         rank_list(finding.waiting));
    case FindingKind::stuck:
      return "is stuck in " + what;
    case FindingKind::chain:
    case FindingKind::slow:
      break;
  }
  return "";
}

std::map<int, std::string> remarks_of(const std::vector<Finding>& findings) {
  std::map<int, std::string> remarks;
  for (const Finding& finding : findings)
    if (finding.is_fault && finding.kind != FindingKind::chain)
      for (const int rank : finding.culprits) remarks.try_emplace(rank, remark_of(finding));
  return remarks;
}

/// Those with a remark first, then the others as long as there is room.
std::vector<int> ranks_shown(const Job& job, const std::map<int, std::string>& remarks,
                             std::size_t most) {
  std::set<int> shown;
  for (const auto& [rank, remark] : remarks)
    if (shown.size() < most) shown.insert(rank);
  for (int rank = 0; rank < job.world_size() && shown.size() < most; ++rank) shown.insert(rank);
  return {shown.begin(), shown.end()};
}

/// By group, sequence and whether it is a message.
using CallKey = std::tuple<std::string, std::int64_t, bool>;

std::set<CallKey> faulty_calls(const std::vector<Finding>& findings) {
  std::set<CallKey> calls;
  for (const Finding& finding : findings)
    if (finding.is_fault && finding.sequence > 0)
      calls.insert({finding.group_uid, finding.sequence, finding.is_p2p});
  return calls;
}

std::vector<const Entry*> entries_shown(const Dump& dump, std::size_t count) {
  std::vector<const Entry*> shown;
  for (auto entry = dump.entries.rbegin(); entry != dump.entries.rend() && shown.size() < count;
       ++entry)
    if (entry->created_ns) shown.push_back(&*entry);
  std::reverse(shown.begin(), shown.end());
  return shown;
}

std::string tip_of(const Job& job, const Dump& dump, const Entry& entry, const Bar& bar) {
  std::string text =
      fmt::format("{}\n{}{}", of_group(call_name(entry, dump.rank), job.label(entry.group)),
                  call_words(entry), at_site(entry.site));
  if (bar.is_open)
    text += fmt::format("\nin flight for {}", seconds_text(bar.end - bar.begin));
  else if (bar.is_failed)
    text += "\nfailed";
  else if (bar.end > bar.begin)
    text += fmt::format("\ncompleted in {:.3f} ms", (bar.end - bar.begin) * 1e3);
  else
    text += "\ncompleted";
  return text;
}

// The first lane that is free; where all are taken, the last one.
void spread_on_lanes(Row& row) {
  std::vector<double> free_from;
  std::stable_sort(row.bars.begin(), row.bars.end(),
                   [](const Bar& a, const Bar& b) { return a.begin < b.begin; });
  for (Bar& bar : row.bars) {
    std::size_t lane = 0;
    while (lane < free_from.size() && free_from[lane] > bar.begin) ++lane;
    if (lane == free_from.size() && lane < most_lanes)
      free_from.push_back(bar.end);
    else
      lane = std::min(lane, free_from.size() - 1);
    free_from[lane] = std::max(free_from[lane], bar.end);
    bar.lane = static_cast<int>(lane);
  }
  row.lanes = std::max(1, static_cast<int>(free_from.size()));
}

class Maker {
 public:
  Maker(const Job& job, const std::vector<Finding>& findings, std::size_t count)
      : job_(job), places_(faulty_calls(findings)), count_(count) {}

  Timeline make(const std::map<int, std::string>& remarks, const std::vector<int>& ranks) {
    Timeline timeline;
    find_start(ranks);
    std::set<std::string> groups;
    std::set<std::string> hosts;
    for (const int rank : ranks) {
      Row row = make_row(rank);
      if (const auto remark = remarks.find(rank); remark != remarks.end()) {
        row.is_guilty = true;
        row.remark = remark->second;
      }
      for (const Bar& bar : row.bars) {
        groups.insert(bar.group);
        timeline.times.push_back(bar.begin);
        timeline.times.push_back(bar.end);
      }
      if (const Dump* dump = job_.dump(rank)) hosts.insert(dump->host);
      timeline.rows.push_back(std::move(row));
    }
    timeline.groups.assign(groups.begin(), groups.end());
    timeline.several_hosts = hosts.size() > 1;
    timeline.left_out = static_cast<std::size_t>(job_.world_size()) - ranks.size();
    return timeline;
  }

 private:
  void find_start(const std::vector<int>& ranks) {
    for (const int rank : ranks)
      if (const Dump* dump = job_.dump(rank))
        for (const Entry* entry : entries_shown(*dump, count_))
          start_ = std::min(start_, entry->created_ns.value_or(start_));
  }

  Row make_row(int rank) const {
    Row row;
    row.rank = rank;
    row.label = fmt::format("rank {}", rank);
    const Dump* dump = job_.dump(rank);
    if (dump == nullptr) return row;
    row.has_dump = true;
    if (!dump->host.empty()) row.label += " " + dump->host;
    for (const Entry* entry : entries_shown(*dump, count_))
      row.bars.push_back(bar_of(*dump, *entry));
    spread_on_lanes(row);
    return row;
  }

  Bar bar_of(const Dump& dump, const Entry& entry) const {
    Bar bar;
    bar.group = job_.label(entry.group);
    bar.is_failed = entry.state == EntryState::failed;
    bar.is_open = entry.state != EntryState::completed && !bar.is_failed;
    bar.begin = seconds_between(start_, entry.created_ns.value_or(start_));
    bar.end = bar.begin;
    if (entry.duration_ms && *entry.duration_ms > 0)
      bar.end = bar.begin + *entry.duration_ms * 1e-3;
    else if (entry.completed_ns)
      bar.end = std::max(bar.begin, seconds_between(start_, *entry.completed_ns));
    else if (bar.is_open || bar.is_failed)
      bar.end = std::max(bar.begin, seconds_between(start_, dump.time_ns));
    const std::int64_t sequence = entry.is_p2p ? entry.p2p_seq : entry.collective_seq;
    bar.is_marked = places_.contains({entry.group, sequence, entry.is_p2p});
    const std::string number = fmt::format("#{}", sequence);
    bar.labels = {fmt::format("{} {} {}", entry.op, number, bar.group),
                  fmt::format("{} {}", number, bar.group), number};
    bar.tip = tip_of(job_, dump, entry, bar);
    return bar;
  }

  const Job& job_;
  std::set<CallKey> places_;
  std::size_t count_;
  std::int64_t start_ = std::numeric_limits<std::int64_t>::max();
};

}  // namespace

Timeline make_timeline(const Job& job, const std::vector<Finding>& findings, std::size_t count,
                       std::size_t row_limit) {
  const std::map<int, std::string> remarks = remarks_of(findings);
  return Maker(job, findings, count).make(remarks, ranks_shown(job, remarks, row_limit));
}

}  // namespace hymn::trace
