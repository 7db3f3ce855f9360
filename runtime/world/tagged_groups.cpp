#include "runtime/world/tagged_groups.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace hymn::detail {

std::string TaggedGroups::tag_of(std::uint64_t uid) { return fmt::format("{}{}", automatic, uid); }

// On ranks outside a group ends without a word.
void TaggedGroups::enter(const Group& group) {
  std::vector<Group> ended;
  const std::lock_guard lock(mutex_);
  auto& entries = entries_[group->members().membership().tag];
  std::erase_if(entries, [&](Entry& entry) {
    if (entry.kept == nullptr || !entry.kept->health().is_destroyed()) return false;
    ended.push_back(std::move(entry.kept));
    return true;
  });
  entries.push_back({group.get(), group});
}

void TaggedGroups::clear() {
  decltype(entries_) ended;
  const std::lock_guard lock(mutex_);
  ended.swap(entries_);
}

// What is kept must not end under the lock.
void TaggedGroups::forget(const GroupState& group) {
  Group kept;
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(group.members().membership().tag);
  if (found == entries_.end()) return;
  std::erase_if(found->second, [&](Entry& entry) {
    if (entry.group != &group) return false;
    kept = std::move(entry.kept);
    return true;
  });
  if (found->second.empty()) entries_.erase(found);
}

TaggedGroups::Group TaggedGroups::find(std::string_view tag, std::span<const int> ranks) {
  std::vector<Group> seen;
  const std::lock_guard lock(mutex_);
  return find_locked(tag, seen, [ranks](std::vector<int> members) {
    std::ranges::sort(members);
    return std::ranges::equal(members, ranks);
  });
}

template <class Fits>
TaggedGroups::Group TaggedGroups::find_locked(std::string_view tag, std::vector<Group>& seen,
                                              Fits fits) {
  const auto found = entries_.find(tag);
  if (found == entries_.end()) return nullptr;
  for (auto entry = found->second.rbegin(); entry != found->second.rend(); ++entry) {
    const Group& group = seen.emplace_back(entry->living.lock());
    if (group != nullptr && !group->health().is_destroyed() && fits(group->members().ranks()))
      return group;
  }
  return nullptr;
}

TaggedGroups::Group TaggedGroups::find_or_make(const std::string& tag,
                                               const std::vector<int>& ranks,
                                               const Patience& patience,
                                               const std::function<Group()>& make) {
  const Name name(tag, ranks);
  std::vector<Group> seen;
  std::unique_lock lock(mutex_);
  const auto maker = making_.find(name);
  if (maker != making_.end() && maker->second == std::this_thread::get_id())
    throw UsageError(patience.purpose + ": the thread that calls back is making it",
                     {.remedy = "ask for it when it has been made"});
  PatientWait wait(patience);
  const bool is_free = wait.until(lock, changed_, [&] { return !making_.contains(name); });
  if (!is_free)
    throw TimeoutError(
        fmt::format("{}: another thread of this rank has been making it for {:.3f} s",
                    patience.purpose, std::chrono::duration<double>(wait.waited()).count()),
        wait.waited(), patience.context);
  const auto is_same = [&ranks](const std::vector<int>& members) { return members == ranks; };
  if (Group known = find_locked(tag, seen, is_same)) return known;
  making_.emplace(name, std::this_thread::get_id());
  lock.unlock();
  Group made;
  std::exception_ptr error;
  try {
    made = make();
    // On ranks outside there is nothing to find again.
    if (made->members().is_member()) keep(made);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  making_.erase(name);
  changed_.notify_all();
  if (error) std::rethrow_exception(error);
  return made;
}

void TaggedGroups::keep(const Group& group) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(group->members().membership().tag);
  if (found == entries_.end()) return;
  for (Entry& entry : found->second)
    if (entry.group == group.get()) entry.kept = group;
}

}  // namespace hymn::detail
