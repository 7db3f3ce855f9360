// A value that will be available later, and what to do with it then.
#pragma once

#include "hymn/standard.hpp"  // first

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "hymn/error.hpp"

namespace hymn {

/// Runs a task, now or later, here or on another thread.
using Executor = std::function<void(std::function<void()>)>;

/// Runs the task at once, on the thread that completed the value.
HYMN_API Executor inline_executor();

template <class T>
class Future;

namespace detail {

/// Moves a value toward completion until it is complete or the timeout has passed (then it throws).
using Drive = std::function<void(Timeout)>;

struct Unit {};
template <class T>
using Stored = std::conditional_t<std::is_void_v<T>, Unit, T>;

[[noreturn]] HYMN_API void throw_future_timeout(Timeout timeout);

template <class T>
class FutureState {
 public:
  explicit FutureState(Drive drive) : drive_(std::move(drive)) {}

  /// The first outcome stays: an executor may run a task and then throw, or run it twice.
  void set_value(Stored<T>&& value) {
    finish([&] { value_.emplace(std::move(value)); });
  }
  void set_error(std::exception_ptr error) {
    finish([&] { error_ = std::move(error); });
  }
  bool is_ready() {
    std::lock_guard lock(mutex_);
    return ready();
  }
  /// Runs `callback` once the value is there; at once when it is there already. It must not throw:
  /// the thread that completes the value knows nothing of it.
  void on_ready(std::function<void()> callback) {
    {
      std::lock_guard lock(mutex_);
      if (!ready()) {
        callbacks_.push_back(std::move(callback));
        return;
      }
    }
    callback();
  }
  void wait(Timeout timeout) {
    const Deadline deadline = Deadline::after(timeout);
    if (!is_ready() && drive_) drive_(timeout);
    std::unique_lock lock(mutex_);
    if (deadline.is_never()) {
      changed_.wait(lock, [this] { return ready(); });
    } else if (!changed_.wait_until(lock, deadline.when(), [this] { return ready(); })) {
      throw_future_timeout(timeout);
    }
  }
  /// Only after completion. Throws the error where there is one.
  const Stored<T>& value() {
    std::lock_guard lock(mutex_);
    if (error_) std::rethrow_exception(error_);
    return *value_;
  }
  const Drive& drive() const { return drive_; }

 private:
  bool ready() const { return value_.has_value() || error_ != nullptr; }

  template <class Store>
  void finish(Store&& store) {
    std::vector<std::function<void()>> callbacks;
    {
      std::lock_guard lock(mutex_);
      if (ready()) return;
      try {
        store();
      } catch (...) {
        error_ = std::current_exception();  // of a value that could not be moved
      }
      callbacks.swap(callbacks_);
    }
    changed_.notify_all();
    for (auto& callback : callbacks) callback();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Stored<T>> value_;
  std::exception_ptr error_;
  std::vector<std::function<void()>> callbacks_;
  Drive drive_;
};

template <class T>
const std::shared_ptr<FutureState<T>>& need(const std::shared_ptr<FutureState<T>>& state) {
  if (!state) throw UsageError("this Future is empty: it was moved from");
  return state;
}
}  // namespace detail

/// A shared handle to a value of type T (or void). Safe to use from several threads.
///
/// Dropping it cancels nothing: what has been chained to it still runs, but an error that it would
/// have thrown is lost. Compilers warn of one that is not used; where that is meant, write
/// `(void)`.
template <class T>
class [[nodiscard]] Future {
 public:
  explicit Future(std::shared_ptr<detail::FutureState<T>> state) : state_(std::move(state)) {}

  bool is_ready() const { return detail::need(state_)->is_ready(); }
  /// Waits; throws TimeoutError when the timeout passes, and the operation's own error if it
  /// failed. An unset timeout leaves the limit to the operation behind the value.
  T get(Timeout timeout = {}) const {
    detail::need(state_)->wait(timeout);
    if constexpr (std::is_void_v<T>) {
      state_->value();
    } else {
      return state_->value();
    }
  }

  /// `function` gets the value, and what it returns is the value of the new future. An error skips
  /// `function` and passes on; an exception from it becomes the new future's error, and so does one
  /// from `executor`. It runs on `executor`, by default on the thread that completed the operation.
  template <class Function>
  auto then(Function function, Executor executor = inline_executor()) const {
    using Result = typename Invoked<Function, T>::type;
    auto child = std::make_shared<detail::FutureState<Result>>(detail::need(state_)->drive());
    auto task = [parent = state_, child, function = std::move(function)]() mutable {
      std::optional<detail::Stored<Result>> result;
      try {
        result.emplace(call<Result>(function, parent->value()));
      } catch (...) {
        child->set_error(std::current_exception());
        return;
      }
      child->set_value(std::move(*result));
    };
    auto callback = [child, task = std::move(task), executor = std::move(executor)]() mutable {
      try {
        executor(std::move(task));
      } catch (...) {
        child->set_error(std::current_exception());
      }
    };
    state_->on_ready(std::move(callback));
    return Future<Result>(child);
  }

 private:
  template <class Function, class Value>
  struct Invoked {
    using type = std::invoke_result_t<Function&, const Value&>;
  };
  template <class Function>
  struct Invoked<Function, void> {
    using type = std::invoke_result_t<Function&>;
  };

  template <class Result, class Function, class Value>
  static detail::Stored<Result> call(Function& function, const Value& value) {
    auto invoke = [&]() -> Result {
      if constexpr (std::is_void_v<T>) {
        return function();
      } else {
        return function(value);
      }
    };
    if constexpr (std::is_void_v<Result>) {
      invoke();
      return {};
    } else {
      return invoke();
    }
  }

  std::shared_ptr<detail::FutureState<T>> state_;
};

}  // namespace hymn
