#include "hymn/future.hpp"

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <vector>

#include "base/callback_scope.hpp"

namespace hymn {

Executor inline_executor() {
  // Also where the value was there already, so that what may be done there depends on no race.
  return [](const std::function<void()>& task) {
    const CallbackScope scope;
    task();
  };
}

namespace detail {

namespace {

[[noreturn]] void throw_future_timeout(Timeout timeout) {
  const double seconds = std::chrono::duration<double>(timeout.duration()).count();
  throw TimeoutError(fmt::format("a future was not ready after {:.3f} s", seconds),
                     timeout.duration());
}

}  // namespace

struct FutureOutcome::Parts {
  std::mutex mutex;
  std::condition_variable changed;
  bool ready = false;
  std::exception_ptr error;
  std::vector<std::function<void()>> callbacks;
  Drive drive;
};

FutureOutcome::FutureOutcome(Drive drive) : parts_(std::make_unique<Parts>()) {
  parts_->drive = std::move(drive);
}
FutureOutcome::~FutureOutcome() = default;

void FutureOutcome::set_error(std::exception_ptr error) {
  finish([&] { parts_->error = std::move(error); });
}

bool FutureOutcome::is_ready() const {
  const std::lock_guard lock(parts_->mutex);
  return parts_->ready;
}

void FutureOutcome::on_ready(std::function<void()> callback) {
  {
    const std::lock_guard lock(parts_->mutex);
    if (!parts_->ready) {
      parts_->callbacks.push_back(std::move(callback));
      return;
    }
  }
  callback();
}

void FutureOutcome::wait(Timeout timeout) const {
  const Deadline deadline = Deadline::after(timeout);
  if (!is_ready() && parts_->drive) parts_->drive(timeout);
  std::unique_lock lock(parts_->mutex);
  const auto ready = [this] { return parts_->ready; };
  if (deadline.is_never()) {
    parts_->changed.wait(lock, ready);
  } else if (!parts_->changed.wait_until(lock, deadline.when(), ready)) {
    throw_future_timeout(timeout);
  }
}

const Drive& FutureOutcome::drive() const { return parts_->drive; }

void FutureOutcome::finish(const std::function<void()>& store) {
  std::vector<std::function<void()>> callbacks;
  {
    const std::lock_guard lock(parts_->mutex);
    if (parts_->ready) return;
    try {
      store();
    } catch (...) {
      parts_->error = std::current_exception();  // of a value that could not be moved
    }
    parts_->ready = true;
    callbacks.swap(parts_->callbacks);
  }
  parts_->changed.notify_all();
  for (auto& callback : callbacks) callback();
}

void FutureOutcome::rethrow() const {
  const std::lock_guard lock(parts_->mutex);
  if (parts_->error) std::rethrow_exception(parts_->error);
}

}  // namespace detail
}  // namespace hymn
