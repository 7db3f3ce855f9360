// What a group tells of operations that have ended: to hooks, and to the counts of metrics; and
// which of its calls are watched at all.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <span>
#include <string_view>

#include "runtime/group/completions.hpp"
#include "runtime/group/group_members.hpp"
#include "runtime/group/world_context.hpp"

namespace hymn::detail {

class WorkState;

/// What is asked of the calls of a group beyond carrying them out; a set of these.
struct Watch {
  static constexpr unsigned nan_check = 1;  ///< no NaN may be sent
  static constexpr unsigned info = 2;       ///< CheckLevel::info
  static constexpr unsigned detail = 4;     ///< CheckLevel::detail
  static constexpr unsigned metrics = 8;    ///< operations are counted
  static constexpr unsigned hooks = 16;     ///< somebody wants to know what has ended
};

/// A blocking call under watch.
struct WatchedCall {
  bool is_on = false;
  TimePoint entered{};
  TimePoint started{};
  std::string_view path{};  ///< that carries it
};

class GroupWatch {
 public:
  GroupWatch(WorldContext& world, const GroupMembers& members, const GroupOptions& options)
      : world_(world), members_(members), watch_(watch_from(options)) {}

  /// Whether any of Watch is asked for: all that calls ask themselves where nothing is.
  bool is_watched() const { return watch_.load(std::memory_order_relaxed) != 0; }
  bool watches(unsigned what) const { return (watch_.load(std::memory_order_relaxed) & what) != 0; }
  void on_completion(CompletionHook hook);
  /// As ProcessGroup::wait_for_pending_works(), of those that are pending.
  void settle(std::span<const std::shared_ptr<WorkState>> pending, Timeout timeout);
  void end_hooks(Timeout patience);

  void note_ended(const Call& call, const WatchedCall& watched, const std::exception_ptr& error);
  /// Of a work that is about to end; possibly under locks.
  void note_ended(const WorkState& work, const std::exception_ptr& error);
  /// To be called outside of locks where note_ended() was called.
  void tell_ended() {
    if (is_watched()) [[unlikely]]
      tell_hooks();
  }
  /// A thread was blocked in waiting for this work.
  void note_waited(const WorkState& work, Duration waited);

 private:
  unsigned watch_from(const GroupOptions& options) const;
  void tell_hooks();

  WorldContext& world_;
  const GroupMembers& members_;
  std::atomic<unsigned> watch_;
  Completions completions_;
};

}  // namespace hymn::detail
