// Requests of the program that are started again and again, and what each of them does.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "preload/mpi.hpp"
#include "recorder/call_record.hpp"

namespace hymn::preload {

struct WatchedGroup;

/// A message between two ranks, as it is recorded.
struct PersistentMessage {
  std::shared_ptr<WatchedGroup> group{};
  OpType type = OpType::send;
  int peer = -1;
  int tag = 0;
  std::size_t bytes = 0;
};

/// Thread-safe.
class PersistentRequests {
 public:
  void add(MPI_Request request, PersistentMessage message) {
    const std::lock_guard lock(mutex_);
    messages_[request] = std::move(message);
    count_.store(messages_.size(), std::memory_order_relaxed);
  }
  void remove(MPI_Request request) {
    if (is_empty()) return;
    const std::lock_guard lock(mutex_);
    messages_.erase(request);
    count_.store(messages_.size(), std::memory_order_relaxed);
  }
  std::optional<PersistentMessage> find(MPI_Request request) const {
    if (is_empty()) return std::nullopt;
    const std::lock_guard lock(mutex_);
    const auto found = messages_.find(request);
    return found == messages_.end() ? std::nullopt : std::optional(found->second);
  }
  bool is_empty() const { return count_.load(std::memory_order_relaxed) == 0; }

 private:
  mutable std::mutex mutex_{};
  std::map<MPI_Request, PersistentMessage> messages_{};
  std::atomic<std::size_t> count_{0};
};

}  // namespace hymn::preload
