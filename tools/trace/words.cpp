#include "tools/trace/words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "hymn/op_type.hpp"
#include "tools/trace/waits.hpp"

namespace hymn::trace {

namespace {

/// Of the operation of that name; of none, where another hymn has one that this one has not.
RootRole root_role_of(const std::string& op) {
  for (const OpType type : all_op_types)
    if (op == traits_of(type).name) return traits_of(type).root;
  return RootRole::none;
}

std::int64_t pid_of(const Job& job, int rank) {
  const Dump* dump = job.dump(rank);
  return dump != nullptr && dump->pid > 0 ? dump->pid : job.fate(rank).pid;
}

// The last one that it has not left, and in which a thread of the program waits, or none does.
const Entry* open_entry(const Dump& dump, bool waited_for) {
  const auto found = std::find_if(dump.entries.rbegin(), dump.entries.rend(), [&](const Entry& e) {
    return !e.retired && e.state != EntryState::completed && e.state != EntryState::failed &&
           e.waited_for == waited_for;
  });
  return found == dump.entries.rend() ? nullptr : &*found;
}

const Entry* last_left(const Dump& dump) {
  const Entry* last = nullptr;
  for (const Entry& entry : dump.entries)
    if (last == nullptr || entry.completed_ns.value_or(0) >= last->completed_ns.value_or(0))
      last = &entry;
  return last;
}

std::string for_seconds(const Dump& dump, const std::optional<std::int64_t>& since) {
  return since ? " for " + seconds_text(seconds_between(*since, dump.time_ns)) : "";
}

std::string outside_text(const Job& job, const Dump& dump) {
  const Entry* last = last_left(dump);
  if (last == nullptr)
    return dump.has_entries ? "it has made no call on any group"
                            : "its dump was made without operations";
  const bool failed = last->state == EntryState::failed;
  std::string text = fmt::format("last seen {} {}{}", failed ? "failing in" : "leaving",
                                 of_group(call_name(*last, dump.rank), job.label(last->group)),
                                 at_site(last->site));
  if (last->completed_ns)
    text += fmt::format(", {} before its dump",
                        seconds_text(seconds_between(*last->completed_ns, dump.time_ns)));
  return text;
}

// "it has been making group 1 of ranks 0-2 for 3.0 s; last seen leaving …"
std::string making_text(const Job& job, const Dump& dump, const MakingReport& making) {
  std::string what = "ending its world";
  if (making.kind == "new_group") what = "making " + new_group_text(job, making);
  if (making.kind == "shrink") what = fmt::format("shrinking group '{}'", job.label(making.uid));
  return making.given_up_ns
             ? fmt::format("it has given up {}; {}", what, outside_text(job, dump))
             : fmt::format("it has been {}{}; {}", what, for_seconds(dump, making.since_ns),
                           outside_text(job, dump));
}

Whereabouts last_seen(const Job& job, const Dump& dump) {
  using Kind = Whereabouts::Kind;
  if (const Entry* open = open_entry(dump, true))
    return {Kind::in_operation,
            fmt::format("it has been in {}{}{}",
                        of_group(call_name(*open, dump.rank), job.label(open->group)),
                        for_seconds(dump, open->created_ns), at_site(open->site))};
  if (dump.in_call)
    return {Kind::in_call, fmt::format("it has been in {}{}", dump.in_call->name,
                                       for_seconds(dump, dump.in_call->since_ns))};
  if (const MakingReport* making = making_of(dump))
    return {Kind::in_call, making_text(job, dump, *making)};
  const Entry* started = open_entry(dump, false);
  // It moves it on, as who waits in it does.
  if (started != nullptr && is_tested(dump, *started))
    return {Kind::in_operation,
            fmt::format("it has been testing {}{}{}, and is free to do something else",
                        of_group(call_name(*started, dump.rank), job.label(started->group)),
                        for_seconds(dump, started->created_ns), at_site(started->site))};
  if (started != nullptr)
    return {Kind::outside,
            fmt::format("it started {}{}{}, and is not waiting in any call",
                        of_group(call_name(*started, dump.rank), job.label(started->group)),
                        started->created_ns
                            ? fmt::format(" {} ago", seconds_text(seconds_between(
                                                         *started->created_ns, dump.time_ns)))
                            : "",
                        at_site(started->site))};
  return {Kind::outside, outside_text(job, dump)};
}

std::string shadow_text(const Dump& dump) {
  std::string text;
  for (const GroupConfig& group : dump.groups)
    if (group.shadows_since)
      text += fmt::format("{} #{} of group '{}'", text.empty() ? "" : ",", *group.shadows_since,
                          group.label);
  return text.empty() ? "" : "it has run out of input after" + text + ", and shadows the others";
}

}  // namespace

std::string host_of(const Job& job, int rank) {
  const Dump* dump = job.dump(rank);
  return dump != nullptr && !dump->host.empty() ? dump->host : job.fate(rank).host;
}

std::string rank_list(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::string text;
  for (std::size_t i = 0, end = 0; i < ranks.size(); i = end) {
    for (end = i + 1; end < ranks.size() && ranks[end] == ranks[end - 1] + 1;) ++end;
    if (!text.empty()) text += ", ";
    text +=
        end - i == 1 ? fmt::format("{}", ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[end - 1]);
  }
  return text;
}

std::string ranks_text(const std::vector<int>& ranks) {
  if (ranks.empty()) return "nobody";
  const bool one = std::all_of(ranks.begin(), ranks.end(), [&](int r) { return r == ranks[0]; });
  return (one ? "rank " : "ranks ") + rank_list(ranks);
}

std::string who(const Job& job, const std::vector<int>& ranks) {
  std::string text = ranks_text(ranks);
  if (ranks.empty()) return text;
  const std::string host = host_of(job, ranks[0]);
  if (ranks.size() == 1) {
    const std::int64_t pid = pid_of(job, ranks[0]);
    if (host.empty() && pid <= 0) return text;
    if (pid <= 0) return fmt::format("{} ({})", text, host);
    return host.empty() ? fmt::format("{} (pid {})", text, pid)
                        : fmt::format("{} ({}, pid {})", text, host, pid);
  }
  const bool same =
      std::all_of(ranks.begin(), ranks.end(), [&](int rank) { return host_of(job, rank) == host; });
  return same && !host.empty() ? fmt::format("{} ({})", text, host) : text;
}

std::string call_name(const Entry& entry, int rank) {
  if (!entry.is_p2p) return fmt::format("{} #{}", entry.op, entry.collective_seq);
  if (!entry.peer) return fmt::format("{} (#{})", entry.op, entry.p2p_seq);
  const std::string peer = *entry.peer < 0 ? "any" : std::to_string(*entry.peer);
  const std::string_view arrow = entry.op == "recv" || entry.op == "probe" ? "<-" : "->";
  return fmt::format("{} {}{}{} (#{})", entry.op, rank, arrow, peer, entry.p2p_seq);
}

std::string call_words(const Entry& entry) {
  const BufferList& buffers = entry.input.sizes.size() > 2 ? entry.input : entry.output;
  std::string text = entry.op;
  if (!buffers.dtype.empty()) text += fmt::format(" of {} {}", buffers.elements, buffers.dtype);
  if (!entry.reduce_op.empty()) text += " with " + entry.reduce_op;
  const RootRole role = root_role_of(entry.op);
  if (entry.root && role != RootRole::none)
    text += fmt::format(" {} root {}", role == RootRole::takes ? "to" : "from", *entry.root);
  if (entry.tag) text += fmt::format(" with tag {}", *entry.tag);
  return text;
}

std::string site_text(const CallSite& site) {
  if (!site.file.empty() && site.line > 0) return fmt::format("{}:{}", site.file, site.line);
  if (!site.file.empty()) return site.file;
  return site.function.empty() ? site.address : site.function;
}

std::string at_site(const CallSite& site) {
  const std::string text = site_text(site);
  if (text.empty()) return "";
  return (site.file.empty() && !site.function.empty() ? " in " : " at ") + text;
}

std::string seconds_text(double seconds) { return fmt::format("{:.1f} s", std::max(seconds, 0.0)); }

std::string span_text(double seconds) {
  if (seconds >= 0.9995) return seconds_text(seconds);
  if (seconds >= 1e-3) return fmt::format("{:.0f} ms", seconds * 1e3);
  return fmt::format("{:.0f} us", std::max(seconds * 1e6, 1.0));
}

std::string of_group(const std::string& call, const std::string& label) {
  return fmt::format("{} of group '{}'", call, label);
}

std::string clock_text(std::int64_t time_ns) {
  const std::time_t seconds = static_cast<std::time_t>(time_ns / 1000000000);
  std::tm parts{};
  if (time_ns <= 0 || ::gmtime_r(&seconds, &parts) == nullptr) return "?";
  std::array<char, 64> text{};
  const std::size_t length =
      std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return {text.data(), length};
}

double seconds_between(std::int64_t from_ns, std::int64_t to_ns) {
  // As integers where that is exact and cannot overflow; absurd times need no precision.
  constexpr std::int64_t sane = std::int64_t{1} << 62;
  const bool is_sane = from_ns >= 0 && to_ns >= 0 && from_ns < sane && to_ns < sane;
  return is_sane ? static_cast<double>(to_ns - from_ns) / 1e9
                 : static_cast<double>(to_ns) / 1e9 - static_cast<double>(from_ns) / 1e9;
}

Whereabouts whereabouts(const Job& job, int rank) {
  const Dump* dump = job.dump(rank);
  if (dump == nullptr) return {Whereabouts::Kind::no_dump, "there is no dump of it"};
  Whereabouts where = last_seen(job, *dump);
  if (const std::string shadow = shadow_text(*dump); !shadow.empty()) where.text += "; " + shadow;
  return where;
}

}  // namespace hymn::trace
