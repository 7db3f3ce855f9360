// The contexts that a worker knows.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "hymn/rpc_context.hpp"
#include "rpc/message.hpp"

namespace hymn::rpc::detail {

using distributed::detail::ContextPtr;

/// Numbers of contexts and of messages begin with the rank that gives them. Thread-safe.
class Contexts {
 public:
  using Post = std::function<void(int rank, Message message)>;
  Contexts(int rank, Post post) : rank_(rank), post_(std::move(post)) {}

  std::uint64_t new_number();
  ContextPtr make();
  /// Null where it has been released already, or `id` is 0.
  ContextPtr reach(std::uint64_t id);
  ContextPtr find(std::uint64_t id) const;
  /// Here, and on all workers that it has reached from here; `told_by`: who knows already.
  void release(std::uint64_t id, int told_by);
  /// Those that this rank has begun end with it.
  void lose(int rank);
  void clear();
  std::size_t size() const;

 private:
  const int rank_;
  const Post post_;
  std::atomic<std::uint64_t> last_{0};
  mutable std::mutex mutex_;
  std::map<std::uint64_t, ContextPtr> contexts_;
  std::set<std::uint64_t> released_;  ///< the latest
  std::deque<std::uint64_t> order_;   ///< of those
};

/// While it lives, this thread works in that context.
class ContextScope {
 public:
  explicit ContextScope(ContextPtr context);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

  static ContextPtr current();
  /// Gives the one before.
  static ContextPtr exchange(ContextPtr context);

 private:
  ContextPtr before_;
};

}  // namespace hymn::rpc::detail
