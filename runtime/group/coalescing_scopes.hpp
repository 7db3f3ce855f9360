// Calls that wait for the end of a coalescing scope: docs/coalescing.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "collectives/owned_request.hpp"
#include "hymn/process_group.hpp"
#include "runtime/group/group_members.hpp"

namespace hymn::detail {

/// Those of one scope: collectives of one kind, or messages. Used by the thread that has opened it.
class CapturedCalls {
 public:
  explicit CapturedCalls(const CallOptions& options);

  /// Throws UsageError for a call that does not fit to those before it, and for options that only
  /// the scope can have.
  void add(const Request& request, const CallOptions& options);
  std::span<const Request> requests() const { return requests_; }
  bool are_messages() const { return !requests_.empty() && is_message(requests_.front().type); }
  /// Counts the threads of the process that have opened one, or looked for one.
  std::uint64_t thread() const { return thread_; }
  void* stream() const { return stream_; }

 private:
  void* stream_;
  std::uint64_t thread_;
  std::deque<OwnedRequest> owned_;
  std::vector<Request> requests_;  // of these
};

/// The scopes that are open on one group, at most one of each thread. Thread-safe.
class CoalescingScopes {
 public:
  bool are_open() const { return open_.load(std::memory_order_relaxed) != 0; }
  /// Null: it has none.
  CapturedCalls* of_this_thread() { return are_open() ? find_own() : nullptr; }
  /// Throws UsageError where this thread has one, in which there can be no `call`.
  void require_none(const char* call, const GroupMembers& members);
  /// Throws UsageError where this thread has one.
  CapturedCalls& open(const CallOptions& options, const GroupMembers& members);
  /// From now on its thread's calls are made again.
  std::unique_ptr<CapturedCalls> close(const CapturedCalls& calls);

 private:
  CapturedCalls* find_own();

  std::atomic<std::size_t> open_{0};
  std::mutex mutex_;
  std::vector<std::unique_ptr<CapturedCalls>> scopes_;
};

}  // namespace hymn::detail
