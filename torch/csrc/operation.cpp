// An operation in flight, and what lives until it is over.
#include "operation.hpp"

#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <cstdlib>

#include "callback_threads.hpp"
#include "errors.hpp"
#include "gil.hpp"
#include "waiter.hpp"

namespace hymn_torch {
namespace {

// Between two looks for signals that have come, so that Ctrl-C ends a wait. A wait with a limit
// asks the other ranks where they are when it passes, which costs some messages; and meanwhile hymn
// does not look at the operation's own.
constexpr double between_signal_checks = 2.0;

// With this a wait that ends at a limit gives the group up: it must not have one of ours.
bool limits_are_final() {
  static const bool are = std::getenv("HYMN_BLOCKING_WAIT") != nullptr;
  return are;
}

/// Null where it has succeeded.
std::exception_ptr end_of(hymnResult_t result) {
  if (result == hymnSuccess) return nullptr;
  try {
    throw_failure(result, hymnGetLastError());
  } catch (...) {
    return std::current_exception();
  }
}

void complete(Future& future, const std::exception_ptr& error,
              const std::vector<at::Tensor>& results) {
  if (error)
    future.setErrorIfNeeded(error);
  else
    future.markCompleted(c10::IValue(results));
}

bool is_in_flight(hymnWork_t work) {
  int done = 0;
  return hymnWorkTest(work, &done) == hymnSuccess && done == 0;
}

}  // namespace

std::atomic<int> Operation::in_flight_{0};

Operation::~Operation() {
  for (const hymnWork_t work : works_) hymnWorkFree(work);
  if (!is_over()) --in_flight_;
}

std::exception_ptr Operation::wait_for(hymnWork_t work, double seconds) const {
  const bool is_limited = seconds > 0;
  if (limits_are_final() && !is_limited) return end_of(hymnWorkWait(work));
  double waited = 0;
  while (true) {
    const double left = is_limited ? seconds - waited : between_signal_checks;
    const double own_left = limit_ > 0 ? limit_ - waited : between_signal_checks;
    const double part = std::min({left, own_left, between_signal_checks});
    const hymnResult_t result = hymnWorkWaitTimeout(work, part);
    if (result == hymnSuccess) return nullptr;
    const std::string text = hymnGetLastError();
    // It may have succeeded in this moment.
    if (result != hymnTimeoutError || !is_in_flight(work)) return end_of(hymnWorkWait(work));
    waited += part;
    if (is_limited && waited >= seconds) throw_error(result, text);
    if (limit_ > 0 && waited >= limit_) return end_of(hymnWorkWait(work));  // tells who is missing
    raise_signals();
  }
}

void Operation::wait_on_host(double seconds) {
  if (is_gathering())
    throw_value_error(
        "hymn: a call between the beginning and the end of coalescing cannot be "
        "waited for; wait for the work that the end gives");
  const WithoutGil waiting;
  std::exception_ptr first_error;
  for (const hymnWork_t work : works_)
    if (std::exception_ptr error = wait_for(work, seconds); error && !first_error)
      first_error = error;
  if (end_ && !first_error) end_->await();  // its copies
  finish(first_error);
}

void Operation::wait(double seconds) {
  const bool is_for_host = !end_ || seconds > 0 || limits_are_final();
  if (!is_over()) {
    if (is_for_host)
      wait_on_host(seconds);
    else
      synchronize();
  }
  if (error()) std::rethrow_exception(error_);
}

bool Operation::test(CallbacksOn where) {
  if (is_over()) return true;
  if (is_gathering()) return false;
  std::exception_ptr first_error;
  for (const hymnWork_t work : works_) {
    int done = 0;
    hymnResult_t result = hymnWorkTest(work, &done);
    if (result == hymnSuccess && done == 0) return false;
    if (result == hymnSuccess)
      if (const hymnResult_t asked = hymnWorkError(work, &result); asked != hymnSuccess)
        result = asked;  // hymn cannot tell of it any more: it is over
    if (std::exception_ptr error = end_of(result); error && !first_error) first_error = error;
  }
  if (end_ && !first_error && !end_->is_reached()) return false;
  finish(first_error, where);
  return true;
}

void Operation::on_end(std::function<void(bool)> end) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!is_over()) return on_end_.push_back(std::move(end));
  }
  end(error_ == nullptr);
}

void Operation::cancel() {
  set_gathering(false);
  try {
    throw_error(hymnAbortedError, "hymn: the calls that were gathered have not been made");
  } catch (...) {
    finish(std::current_exception());
  }
}

void Operation::read_source() {
  hymnRecvStatus_t status{};
  if (works_.size() == 1 && hymnWorkStatus(works_.front(), 0, &status) == hymnSuccess)
    source_ = status.source;
}

// Tensors are let go without the lock: the last owner of one that Python knows needs Python's lock,
// whose owner may wait for this one.
void Operation::finish(std::exception_ptr error, CallbacksOn where) {
  Buffers buffers;
  std::vector<std::function<void(bool)>> on_end;
  c10::intrusive_ptr<Future> future;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (is_over()) return;
    try {
      if (!error) buffers_.finish_copies();
    } catch (...) {
      error = std::current_exception();
    }
    std::swap(buffers, buffers_);
    if (is_receive_ && !error) read_source();
    error_ = error;
    std::swap(on_end, on_end_);
    if (!end_) future = future_;  // else it has its value already
    --in_flight_;
    is_over_.store(true, std::memory_order_release);
  }
  for (const auto& end : on_end) end(error == nullptr);
  if (!future) return;
  if (where == CallbacksOn::this_thread) return complete(*future, error, results_);
  CallbackThreads::of_process().run(
      [future, error, results = results_] { complete(*future, error, results); });
}

std::exception_ptr Operation::error() const { return is_over() ? error_ : nullptr; }

// Who takes its value, or is called back, has streams that wait for what the current one holds now.
c10::intrusive_ptr<Future> Operation::make_future() const {
  auto type = c10::ListType::create(c10::TensorType::get());
  if (!end_) return c10::make_intrusive<Future>(std::move(type));
  const std::vector<c10::Device> devices{end_->stream().device()};
  auto future = c10::make_intrusive<Future>(std::move(type), devices);
  const c10::StreamGuard guard(end_->stream());
  complete(*future, error(), results_);
  return future;
}

c10::intrusive_ptr<Future> Operation::future() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (future_) return future_;
    future_ = make_future();
    if (end_) return future_;
    if (is_over()) {
      complete(*future_, error_, results_);
      return future_;
    }
  }
  Waiter::of_process().add(shared_from_this());
  return future_;
}

}  // namespace hymn_torch
