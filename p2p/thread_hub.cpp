#include "p2p/thread_hub.hpp"

#include <algorithm>

#include "p2p/shm/heap_region.hpp"
#include "p2p/thread_board.hpp"

namespace hymn {

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
  std::lock_guard lock(mailbox.mutex);
  mailbox.by_tag[tag].push_back(std::move(message));
}

std::optional<ExchangeMessage> ThreadHub::take(int rank, int from, std::uint64_t tag) {
  Mailbox& mailbox = *mailboxes_.at(static_cast<std::size_t>(rank));
  {
    std::lock_guard lock(mailbox.mutex);
    const auto queue = mailbox.by_tag.find(tag);
    if (queue != mailbox.by_tag.end()) {
      auto& messages = queue->second;
      const auto wanted =
          std::find_if(messages.begin(), messages.end(), [from](const auto& message) {
            return from == Exchange::from_anyone || message.source == from;
          });
      if (wanted != messages.end()) {
        ExchangeMessage message = std::move(*wanted);
        messages.erase(wanted);
        if (messages.empty()) mailbox.by_tag.erase(queue);
        return message;
      }
    }
  }
  throw_if_aborted();
  return std::nullopt;
}

std::shared_ptr<ThreadBoard> ThreadHub::board(std::uint64_t uid, int members) {
  std::lock_guard lock(boards_mutex_);
  std::shared_ptr<ThreadBoard> board = boards_[uid].lock();
  if (!board) {
    board = std::make_shared<ThreadBoard>(members);
    boards_[uid] = board;
    if (aborted_.load(std::memory_order_acquire)) board->abort(abort_reason_);
  }
  return board;
}

std::shared_ptr<HeapMemory> ThreadHub::memory(const std::string& name, const RegionPlan& plan,
                                              int members) {
  std::lock_guard lock(boards_mutex_);
  std::shared_ptr<HeapMemory> memory = memories_[name].lock();
  if (!memory) {
    memory = std::make_shared<HeapMemory>(plan, members);
    memories_[name] = memory;
  }
  return memory;
}

void ThreadHub::at_abort(std::function<void(const std::string& reason)> function) {
  std::lock_guard lock(boards_mutex_);
  if (aborted_.load(std::memory_order_acquire)) function(abort_reason_);
  at_abort_.push_back(std::move(function));
}

void ThreadHub::abort(const std::string& reason) {
  std::lock_guard lock(boards_mutex_);
  if (aborted_.load(std::memory_order_acquire)) return;
  abort_reason_ = reason;
  aborted_.store(true, std::memory_order_release);
  for (auto& [uid, weak] : boards_)
    if (auto board = weak.lock()) board->abort(reason);
  for (const auto& function : at_abort_) function(reason);
}

}  // namespace hymn
