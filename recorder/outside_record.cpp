#include "recorder/outside_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>

#include "recorder/call_facts.hpp"
#include "recorder/recorder_clock.hpp"
#include "recorder/recorder_memory.hpp"

namespace hymn {

struct OutsideRecord::Parts {
  explicit Parts(const Setup& setup)
      : rank(setup.rank),
        memory(
            {.rank = setup.rank,
             .world_size = setup.world_size,
             .ring = {.entries = setup.entries, .frames = setup.frames, .counts = 0},
             .writers = setup.by_many ? CallRing::Writers::many : CallRing::Writers::one_at_a_time,
             .timing = setup.timing,
             .for_peers = true}) {
    memory.set_job(setup.job);
  }

  int rank;
  RecorderMemory memory;
  std::mutex mutex{};  // guards what follows
  std::map<std::uint64_t, GroupLineLease> lines{};
};

OutsideRecord::OutsideRecord(const Setup& setup)
    : parts_(std::make_unique<Parts>(setup)), ring_(&parts_->memory.ring()) {}

OutsideRecord::~OutsideRecord() = default;

GroupLine& OutsideRecord::add_group(std::uint64_t uid, std::string_view description,
                                    std::span<const int> members) {
  GroupLineLease lease = parts_->memory.take_line(uid, description, members, true);
  const std::lock_guard lock(parts_->mutex);
  GroupLineLease& kept = parts_->lines[uid];
  kept = std::move(lease);
  return *kept;
}

void OutsideRecord::rename_group(std::uint64_t uid, std::string_view description) {
  const std::lock_guard lock(parts_->mutex);
  const auto found = parts_->lines.find(uid);
  if (found != parts_->lines.end()) found->second->description.store(description);
}

void OutsideRecord::end_group(std::uint64_t uid) {
  GroupLineLease ended;
  const std::lock_guard lock(parts_->mutex);
  const auto found = parts_->lines.find(uid);
  if (found == parts_->lines.end()) return;
  ended = std::move(found->second);
  parts_->lines.erase(found);
}

void OutsideRecord::set_waited_for(std::uint64_t id) {
  parts_->memory.ring().set_waited_for(id, true);
}

void OutsideRecord::set_outer_call(const char* name) {
  if (name == nullptr) return parts_->memory.set_outer_call("", 0);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  parts_->memory.set_outer_call(name,
                                std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

// Its begin tells it from others; records have smaller numbers.
std::optional<OutsideRecord::Wait> OutsideRecord::outer_wait() const {
  const RecorderView view = parts_->memory.view();
  const std::int64_t since = view.header().outer_since_ns.load(std::memory_order_acquire);
  std::string name = view.header().outer_call.load();
  if (since == 0 || name.empty()) return std::nullopt;
  const std::int64_t waited = ClockReading::now().wall_ns - since;
  return Wait{static_cast<std::uint64_t>(since), std::move(name),
              Duration(std::max<std::int64_t>(waited, 0))};
}

std::optional<OutsideRecord::Wait> OutsideRecord::longest_wait() const {
  const RecorderView view = parts_->memory.view();
  const CallRing& ring = view.ring();
  const RecorderHeader& header = view.header();
  const ClockReading now = ClockReading::now();
  const StampClock clock({header.made_stamp, header.made_steady_ns, header.made_wall_ns}, now);
  std::optional<CallRecord> longest;
  std::uint64_t since = now.stamp;
  for (std::uint64_t id = ring.first_id(); id < ring.next_id(); ++id) {
    std::optional<CallRecord> call = ring.read(id);
    if (!call || is_ended(call->state) || !call->waited_for) continue;
    const std::uint64_t began = call->waited_since != 0 ? call->waited_since : call->created;
    if (began >= since) continue;
    since = began;
    longest = std::move(call);
  }
  std::optional<Wait> outer = outer_wait();
  if (!longest || (outer && outer->waited > Duration(clock.duration_ns(since, now.stamp))))
    return outer;
  const GroupLine* const line = view.line_of(longest->group_uid);
  const std::string name = profiling_name(longest->type, parts_->rank, longest->peer);
  return Wait{longest->record_id,
              fmt::format("{} of group '{}'", name.substr(name.find(':') + 1),
                          line == nullptr ? "" : line->description.load()),
              Duration(clock.duration_ns(since, now.stamp))};
}

std::string OutsideRecord::dump(std::string_view trigger, std::string_view reason,
                                std::vector<DumpPeer> peers) const {
  DumpRequest request;
  request.trigger = trigger;
  request.reason = reason;
  request.peers = std::move(peers);
  return dump_json(parts_->memory.view(), request);
}

void OutsideRecord::say_goodbye() { parts_->memory.say_farewell(RecorderHeader::farewell_goodbye); }

}  // namespace hymn
