// A value that will be available later, and what to do with it then.
#pragma once

#include "hymn/standard.hpp"  // first

#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "hymn/error.hpp"
#include "hymn/standard_parts.hpp"

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

/// What futures of all types do alike: whether there is an outcome, who waits for it, the error.
class HYMN_API FutureOutcome {
 public:
  FutureOutcome(const FutureOutcome&) = delete;
  FutureOutcome& operator=(const FutureOutcome&) = delete;

  void set_error(std::exception_ptr error);
  bool is_ready() const;
  /// Runs `callback` once the outcome is there; at once when it is there already. It must not
  /// throw: the thread that completes the value knows nothing of it.
  void on_ready(std::function<void()> callback);
  void wait(Timeout timeout) const;
  const Drive& drive() const;

 protected:
  explicit FutureOutcome(Drive drive);
  ~FutureOutcome();

  /// Calls `store`, whose exception becomes the outcome; unless there is an outcome already.
  void finish(const std::function<void()>& store);
  /// Only after completion. Throws the error where there is one.
  void rethrow() const;

 private:
  struct Parts;  // with a mutex and a condition, whose headers are long
  std::unique_ptr<Parts> parts_;
};

template <class T>
class FutureState : public FutureOutcome {
 public:
  explicit FutureState(Drive drive) : FutureOutcome(std::move(drive)) {}

  /// The first outcome stays: an executor may run a task and then throw, or run it twice.
  void set_value(Stored<T>&& value) {
    finish([&] { value_.emplace(std::move(value)); });
  }
  /// Only after completion. Throws the error where there is one.
  const Stored<T>& value() const {
    rethrow();
    return *value_;
  }

 private:
  std::optional<Stored<T>> value_;
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
  /// Runs `callback` once there is a value or an error, on the thread that brings it; at once where
  /// it is there already. It must not throw.
  void on_ready(std::function<void()> callback) const {
    detail::need(state_)->on_ready(std::move(callback));
  }
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

/// The other end of a Future: whoever has it gives the value, once; what is given later is dropped.
/// A shared handle, safe to use from several threads; when the last one is gone without a value the
/// future fails with UsageError, so that nobody waits for ever. Future::get() only waits, and moves
/// nothing that the value may come of.
template <class T>
class Promise {
 public:
  Promise() : given_(std::make_shared<Given>()) {}

  Future<T> get_future() const { return Future<T>(state()); }
  void set_value(detail::Stored<T> value) const
    requires(!std::is_void_v<T>)
  {
    state()->set_value(std::move(value));
  }
  void set_value() const
    requires std::is_void_v<T>
  {
    state()->set_value({});
  }
  void set_error(std::exception_ptr error) const { state()->set_error(std::move(error)); }

 private:
  struct Given {
    std::shared_ptr<detail::FutureState<T>> state =
        std::make_shared<detail::FutureState<T>>(detail::Drive{});
    ~Given() {
      state->set_error(std::make_exception_ptr(
          UsageError("a Promise has gone without a value",
                     {.remedy = "call set_value() or set_error() on every way"})));
    }
  };
  const std::shared_ptr<detail::FutureState<T>>& state() const {
    if (!given_) throw UsageError("this Promise is empty: it was moved from");
    return given_->state;
  }

  std::shared_ptr<Given> given_;
};

}  // namespace hymn
