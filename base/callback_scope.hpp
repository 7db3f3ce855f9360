// Code of the application that hymn calls: what was chained to a future, hooks.
#pragma once

namespace hymn {

/// While it lives, this thread is in a callback.
class CallbackScope {
 public:
  CallbackScope() noexcept;
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;
  ~CallbackScope();

  /// Whether the calling thread is in one.
  static bool is_inside() noexcept;
};

}  // namespace hymn
