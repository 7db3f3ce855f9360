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
  Contexts(int rank, int size, Post post) : rank_(rank), size_(size), post_(std::move(post)) {}

  std::uint64_t new_number();
  ContextPtr make();
  /// Whether there is the worker that has begun it; 0 is no context.
  bool is_possible(std::uint64_t id) const;
  /// As is_possible(). Null where it has been released already, who has begun it is lost, it should
  /// have been begun here and was not, or `id` is 0. Throws ResourceError where that worker has
  /// begun `most_of_one` others that are known here.
  ContextPtr reach(std::uint64_t id);
  ContextPtr find(std::uint64_t id) const;
  /// By who has begun it: on all workers, for some may have been reached by way of one that died.
  void end(std::uint64_t id);
  /// Here alone.
  void release(std::uint64_t id);
  /// Those that this rank has begun end with it.
  void lose(int rank);
  void clear();
  std::size_t size() const;

  static constexpr std::size_t most_of_one = 65'536;

 private:
  bool is_of_lost(std::uint64_t id) const;
  std::size_t& count_of(std::uint64_t id);

  const int rank_;
  const int size_;
  const Post post_;
  std::atomic<std::uint64_t> last_{0};
  mutable std::mutex mutex_;
  std::map<std::uint64_t, ContextPtr> contexts_;
  std::map<int, std::size_t> counts_;  ///< of those, by who has begun them
  std::set<std::uint64_t> released_;   ///< the latest
  std::deque<std::uint64_t> order_;    ///< of those
  std::set<int> lost_;                 ///< workers
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
