#include "p2p/threads/thread_hub.hpp"

#include <algorithm>

#include "base/schedule_point.hpp"
#include "p2p/shm/heap_region.hpp"
#include "p2p/threads/thread_board.hpp"

namespace hymn {
namespace {

/// What somebody still holds under this key, or else what `make` makes. Groups come and go for
/// ever, so what nobody holds is forgotten when there is something new.
template <class Key, class T, class Make>
std::shared_ptr<T> held_or_made(std::map<Key, std::weak_ptr<T>>& all, const Key& key,
                                const Make& make) {
  if (const auto found = all.find(key); found != all.end())
    if (auto held = found->second.lock()) return held;
  std::erase_if(all, [](const auto& entry) { return entry.second.expired(); });
  std::shared_ptr<T> made = make();
  all[key] = made;
  return made;
}

}  // namespace

ThreadHub::ThreadHub(int size) {
  for (int rank = 0; rank < size; ++rank) mailboxes_.push_back(std::make_unique<Mailbox>());
}

ThreadHub::~ThreadHub() = default;

void ThreadHub::throw_if_aborted() {
  if (!aborted_.load(std::memory_order_acquire)) return;
  std::lock_guard lock(boards_mutex_);
  throw AbortedError(abort_reason_);
}

void ThreadHub::deliver(int to, std::uint64_t tag, ExchangeMessage message) {
  throw_if_aborted();
  Mailbox& mailbox = *mailboxes_.at(static_cast<std::size_t>(to));
  {
    std::lock_guard lock(mailbox.mutex);
    mailbox.arrived.add(tag, std::move(message));
  }
  show_to_schedule();
}

std::optional<ExchangeMessage> ThreadHub::take(int rank, int from, std::uint64_t tag) {
  Mailbox& mailbox = *mailboxes_.at(static_cast<std::size_t>(rank));
  {
    std::lock_guard lock(mailbox.mutex);
    if (auto message = mailbox.arrived.take(from, tag)) return message;
  }
  throw_if_aborted();
  return std::nullopt;
}

std::shared_ptr<ThreadBoard> ThreadHub::board(std::uint64_t uid, int members) {
  std::lock_guard lock(boards_mutex_);
  return held_or_made(boards_, uid, [&] {
    auto board = std::make_shared<ThreadBoard>(members);
    if (aborted_.load(std::memory_order_acquire)) board->abort(abort_reason_);
    return board;
  });
}

std::shared_ptr<HeapMemory> ThreadHub::memory(const std::string& name, const RegionPlan& plan,
                                              int members) {
  std::lock_guard lock(boards_mutex_);
  return held_or_made(memories_, name, [&] { return std::make_shared<HeapMemory>(plan, members); });
}

void ThreadHub::at_abort(const std::shared_ptr<const void>& owner,
                         std::function<void(const std::string& reason)> function) {
  std::lock_guard lock(boards_mutex_);
  if (aborted_.load(std::memory_order_acquire)) function(abort_reason_);
  // Not each time: of hundreds of ranks each has a call for each group.
  if (at_abort_.size() >= swept_at_) {
    std::erase_if(at_abort_, [](const AtAbort& other) { return other.owner.expired(); });
    swept_at_ = std::max<std::size_t>(4, 2 * at_abort_.size());
  }
  at_abort_.push_back({owner, std::move(function)});
}

void ThreadHub::abort(const std::string& reason) {
  std::lock_guard lock(boards_mutex_);
  if (aborted_.load(std::memory_order_acquire)) return;
  abort_reason_ = reason;
  aborted_.store(true, std::memory_order_release);
  for (auto& [uid, weak] : boards_)
    if (auto board = weak.lock()) board->abort(reason);
  for (const auto& [weak, function] : at_abort_)
    if (const auto owner = weak.lock()) function(reason);
}

std::size_t ThreadHub::known() {
  std::lock_guard lock(boards_mutex_);
  return boards_.size() + memories_.size() + at_abort_.size();
}

}  // namespace hymn
