#include "recorder/flight_dump.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/patience.hpp"
#include "hymn/settings.hpp"
#include "recorder/flight_dump_entry.hpp"
#include "recorder/last_call.hpp"
#include "recorder/rank_list.hpp"

namespace hymn {
namespace {

/// A group in the dump: its numbers, and what the writer knows of it, if anything.
struct Described {
  GroupLineSeen line;
  const KnownGroup* known = nullptr;

  const std::string& description() const {
    return known != nullptr ? known->description : line.description;
  }
};
using Groups = std::map<std::uint64_t, Described>;

/// Whether it is the memory of the rank that writes.
bool is_own(const RecorderView& view, const DumpRequest& request) {
  return !request.written_by || *request.written_by == view.header().rank;
}

Groups collect(const RecorderView& view, const DumpRequest& request) {
  Groups groups;
  for (GroupLineSeen& line : view.groups()) {
    const std::uint64_t uid = line.uid;
    groups[uid].line = std::move(line);
  }
  const bool own = is_own(view, request);
  for (const KnownGroup& known : request.groups) {
    const auto found = groups.find(known.membership.uid);
    if (found != groups.end()) {
      found->second.known = &known;
    } else if (own) {
      // Ended, or without a place in the table.
      groups[known.membership.uid] = {known.line, &known};
    }
  }
  return groups;
}

DumpJson group_json(std::uint64_t uid, const Described& group) {
  const std::string& description = group.description();
  const std::string label = group.known != nullptr ? group.known->label
                            : uid == 0             ? description
                                                   : fmt::format("{}#{}", description, uid);
  DumpJson told = {{"name", std::to_string(uid)}, {"desc", description}, {"label", label}};
  if (group.known != nullptr) {
    const Membership& membership = group.known->membership;
    told["ranks"] = membership.ranks;
    told["parent"] = membership.parent;
    told["epoch"] = membership.epoch;
    told["tag"] = membership.tag;
  } else {
    told["ranks"] = group.line.ranks ? DumpJson(*group.line.ranks) : DumpJson(nullptr);
    told["parent"] = 0;
    told["epoch"] = 0;
    told["tag"] = "";
  }
  told["collective_seq"] = group.line.collectives;
  told["completed_seq"] = group.line.completed;
  told["p2p_seq"] = group.line.p2ps;
  told["timeout_ms"] = timeout_ms(group.line.timeout_ns);
  if (group.line.shadows_since) told["shadows_since"] = *group.line.shadows_since;
  const bool reason_known = group.known != nullptr && !group.known->abort_reason.empty();
  if (group.line.aborted)
    told["aborted"] = reason_known ? group.known->abort_reason : "for a reason not known here";
  return told;
}

// What a call sends is on its way before its record is written (GroupState::run): so the rank that
// has lost its core in between is waited for, lest its dump deny what others have received of it.
void await_records(const CallRing& ring, std::uint64_t end) {
  constexpr Duration longest = std::chrono::seconds(1);  // it may be stopped, or gone
  const Patience patience{.deadline = Deadline::after(longest),
                          .purpose = "writing the records of calls"};
  PatientWait wait(patience);
  for (std::uint64_t id = ring.first_id(); id < end; ++id)
    if (!wait.until([&] { return !ring.is_being_written(id); })) return;
}

DumpJson entries_json(const EntryWriter& writer, const Groups& groups, bool only_active) {
  const CallRing& ring = writer.view.ring();
  DumpJson entries = DumpJson::array();
  const std::uint64_t end = ring.next_id();
  await_records(ring, end);
  std::vector<std::uint64_t> callers;
  BlockCounts counts;
  CallShapes shapes;
  for (std::uint64_t id = ring.first_id(); id < end; ++id) {
    const auto call = ring.read(id, &callers, &counts, &shapes);
    if (!call) continue;
    // A message of several may have ended long before the others.
    if (only_active && (call->retired || call->state == CallState::completed)) continue;
    const auto group = groups.find(call->group_uid);
    entries.push_back(
        writer.write(*call, {callers, counts, shapes},
                     group == groups.end() ? std::string() : group->second.description()));
  }
  return entries;
}

void add_known(DumpJson& dump, const DumpRequest& request) {
  dump["peers"] = DumpJson::array();
  for (const DumpPeer& peer : request.peers)
    dump["peers"].push_back({{"rank", peer.rank},
                             {"state", peer.state},
                             {"host", peer.host},
                             {"pid", peer.pid},
                             {"detail", peer.detail}});
  if (request.in_call)
    dump["in_call"] = {{"name", request.in_call->name}, {"since_ns", request.in_call->since_ns}};
}

void add_making(DumpJson& dump, const RecorderView& view, const StampClock& clock) {
  const auto making = view.making();
  if (!making) return;
  const auto ranks = unpack_ranks(making->ranks);
  const bool is_given_up = making->given_up != 0;
  dump["making"] = {
      {"kind", std::string(to_string(making->kind))},
      {"uid", making->uid},
      {"ranks", ranks ? DumpJson(*ranks) : DumpJson(nullptr)},
      {"tag", making->tag},
      {"since_ns", clock.wall_ns(making->since)},
      {"given_up_ns", is_given_up ? DumpJson(clock.wall_ns(making->given_up)) : DumpJson(nullptr)}};
}

}  // namespace

std::string dump_json(const RecorderView& view, const DumpRequest& request) {
  const RecorderHeader& header = view.header();
  const ClockReading now = ClockReading::now();
  const StampClock clock({header.made_stamp, header.made_steady_ns, header.made_wall_ns}, now);
  const std::uint64_t job = header.job.load(std::memory_order_acquire);
  DumpJson dump = {
      {"version", "1.4"},
      {"hymn_version", version()},
      {"job", job == 0 ? std::string() : fmt::format("{:016x}", job)},
      {"rank", header.rank},
      {"world_size", header.world_size},
      {"host", header.host.load()},
      {"pid", header.pid},
      {"program", header.program.load()},
      {"written_by", request.written_by.value_or(header.rank)},
      {"trigger", request.trigger},
      {"reason", request.reason},
      {"time_ns", now.wall_ns},
      {"timing", view.ring().timing()},
      {"progress_thread", header.progress_thread.load(std::memory_order_acquire) != 0},
      {"capacity", view.capacity()},
      {"recorded", view.ring().next_id()},
  };
  const Groups groups = collect(view, request);
  dump["pg_config"] = DumpJson::object();
  for (const auto& [uid, group] : groups)
    dump["pg_config"][std::to_string(uid)] = group_json(uid, group);
  add_known(dump, request);
  if (const std::string call = header.outer_call.load(); !request.in_call && !call.empty())
    dump["in_call"] = {{"name", call}, {"since_ns", header.outer_since_ns.load()}};
  add_making(dump, view, clock);
  if (request.collectives) {
    FrameSource source;
    // Of a rank that has died only the executable is known, not where its libraries lay.
    const bool own = is_own(view, request);
    if (!own || request.pid != 0) source = source_of(view, request.pid);
    const bool can_name = own || !source.executable.empty();
    const EntryWriter writer{view, clock, source, request.symbols && can_name};
    dump["entries"] = entries_json(writer, groups, request.only_active);
  }
  // Texts may hold anything: what is no UTF-8 is replaced.
  return dump.dump(1, ' ', false, DumpJson::error_handler_t::replace);
}

}  // namespace hymn
