#include "runtime/world/wait_reports.hpp"

#include <algorithm>

namespace hymn {

std::vector<CallRecord> WaitReports::grown_long(std::span<const CallRecord> waited, TimePoint now) {
  std::vector<CallRecord> grown;
  if (!is_on()) return grown;
  std::lock_guard lock(mutex_);
  now_ = now;
  std::map<std::uint64_t, Wait> still;
  for (const CallRecord& call : waited) {
    const auto known = waits_.find(call.record_id);
    Wait& wait = still[call.record_id];
    wait = known == waits_.end() ? Wait{call, now} : known->second;
    if (wait.is_told || now - wait.since < after_.duration()) continue;
    wait.is_told = true;
    grown.push_back(call);
  }
  waits_ = std::move(still);
  return grown;
}

bool WaitReports::will_tell(std::uint64_t uid, std::uint64_t sequence) const {
  std::lock_guard lock(mutex_);
  return std::ranges::any_of(waits_, [&](const auto& entry) {
    const CallRecord& call = entry.second.call;
    return call.group_uid == uid && call.sequence == sequence && is_collective(call.type) &&
           now_ - entry.second.since >= after_.duration() / 2;
  });
}

std::optional<Duration> WaitReports::waited(const CallRecord& call) const {
  std::lock_guard lock(mutex_);
  const auto wait = waits_.find(call.record_id);
  if (wait == waits_.end()) return std::nullopt;
  return now_ - wait->second.since;
}

}  // namespace hymn
