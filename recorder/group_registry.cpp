#include "recorder/group_registry.hpp"

namespace hymn {

void GroupRegistry::add(const Membership& membership, std::string label, std::string description,
                        const GroupLine& line) {
  std::lock_guard lock(mutex_);
  groups_[membership.uid] = {{membership, std::move(label), std::move(description), "", {}}, &line};
}

void GroupRegistry::set_aborted(std::uint64_t uid, const std::string& reason) {
  std::lock_guard lock(mutex_);
  const auto found = groups_.find(uid);
  if (found != groups_.end()) found->second.known.abort_reason = reason;
}

void GroupRegistry::ended(std::uint64_t uid) {
  std::lock_guard lock(mutex_);
  const auto found = groups_.find(uid);
  if (found == groups_.end() || found->second.line == nullptr) return;
  found->second.known.line = read_line(*found->second.line);
  found->second.line = nullptr;
  ended_.push_back(uid);
  if (ended_.size() <= remembered) return;
  // One of the same number may have been made since.
  const auto oldest = groups_.find(ended_.front());
  if (oldest != groups_.end() && oldest->second.line == nullptr) groups_.erase(oldest);
  ended_.pop_front();
}

std::vector<KnownGroup> GroupRegistry::all() const {
  std::vector<KnownGroup> copies;
  std::lock_guard lock(mutex_);
  copies.reserve(groups_.size());
  for (const auto& [uid, entry] : groups_) {
    copies.push_back(entry.known);
    if (entry.line != nullptr) copies.back().line = read_line(*entry.line);
  }
  return copies;
}

std::string GroupRegistry::label(std::uint64_t uid) const {
  std::lock_guard lock(mutex_);
  const auto found = groups_.find(uid);
  return found == groups_.end() ? std::to_string(uid) : found->second.known.label;
}

GroupMark GroupRegistry::mark_of(std::uint64_t uid, const Entry& entry) {
  if (entry.line == nullptr) return {uid, entry.known.line.collectives, entry.known.line.completed};
  return {uid, entry.line->collectives.load(std::memory_order_acquire),
          entry.line->completed.load(std::memory_order_acquire)};
}

std::vector<GroupMark> GroupRegistry::marks() const {
  std::vector<GroupMark> marks;
  std::lock_guard lock(mutex_);
  marks.reserve(groups_.size());
  for (const auto& [uid, entry] : groups_) marks.push_back(mark_of(uid, entry));
  return marks;
}

std::optional<GroupMark> GroupRegistry::mark(std::uint64_t uid) const {
  std::lock_guard lock(mutex_);
  const auto found = groups_.find(uid);
  if (found == groups_.end()) return std::nullopt;
  return mark_of(uid, found->second);
}

}  // namespace hymn
