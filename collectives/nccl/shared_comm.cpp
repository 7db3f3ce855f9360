#include "collectives/nccl/shared_comm.hpp"

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "base/helper_thread.hpp"
#include "gpu/nccl_calls.hpp"
#include "gpu/relaxed_capture.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

constexpr auto pause_between_polls = std::chrono::milliseconds(1);
// A call that does not return by then is stuck, and ends when the communicator is aborted.
constexpr auto longest_call = std::chrono::seconds(2);
constexpr const char* thread_name = "hymn-nccl";

}  // namespace

SharedComm::SharedComm(const nccl_api::Functions& nccl, std::function<void()> enter_gpu,
                       const cuda_api::Functions* cuda)
    : nccl_(nccl), enter_gpu_(std::move(enter_gpu)), cuda_(cuda) {}

void SharedComm::begin(std::function<void(nccl_api::Comm*)> make, bool gives_one) {
  {
    std::lock_guard lock(mutex_);
    gives_one_ = gives_one;
    stage_ = Stage::calling;
  }
  try {
    start_helper_thread(
        thread_name, [self = shared_from_this(), make = std::move(make)] { self->run_call(make); },
        [](std::string_view) {})
        .detach();
  } catch (const ResourceError&) {
    std::lock_guard lock(mutex_);
    stage_ = Stage::gone;
    throw;
  }
}

void SharedComm::run_call(const std::function<void(nccl_api::Comm*)>& make) {
  std::exception_ptr error;
  try {
    // What it holds is let go before anybody can see that NCCL has.
    std::exchange(enter_gpu_, nullptr)();
    make(&comm_);
  } catch (...) {
    error = std::current_exception();
  }
  {
    std::lock_guard lock(mutex_);
    error_ = error;
    stage_ = given_up_ ? Stage::ending : Stage::returned;
    if (!given_up_) return;
  }
  do_abort();
}

bool SharedComm::has_returned() {
  std::lock_guard lock(mutex_);
  if (stage_ < Stage::returned) return false;
  if (error_) std::rethrow_exception(error_);
  return true;
}

nccl_api::Comm SharedComm::comm() const {
  return std::atomic_ref(const_cast<nccl_api::Comm&>(comm_)).load(std::memory_order_acquire);
}

std::shared_ptr<void> SharedComm::use() {
  std::lock_guard lock(mutex_);
  if (given_up_ || stage_ >= Stage::ending)
    throw AbortedError("NCCL's communicator of this group was given up");
  ++users_;
  return {this, [self = shared_from_this()](void*) {
            std::lock_guard inner(self->mutex_);
            --self->users_;
          }};
}

void SharedComm::abort() noexcept {
  {
    std::lock_guard lock(mutex_);
    given_up_ = true;
    if (stage_ == Stage::fresh) stage_ = Stage::gone;
    if (stage_ != Stage::returned) return;  // a thread that is in NCCL does it, or nobody needs to
    stage_ = Stage::ending;
  }
  end_on_thread(&SharedComm::do_abort);
}

void SharedComm::finish() {
  {
    std::lock_guard lock(mutex_);
    if (stage_ != Stage::returned) return;
    stage_ = Stage::ending;
  }
  end_on_thread(&SharedComm::do_finish);
}

bool SharedComm::is_gone() const {
  std::lock_guard lock(mutex_);
  return stage_ == Stage::gone;
}

void SharedComm::when_gone(std::function<void()> act) {
  {
    std::lock_guard lock(mutex_);
    if (stage_ != Stage::gone) {
      when_gone_.push_back(std::move(act));
      return;
    }
  }
  act();
}

// Who sees that it is gone finds that all has been done.
void SharedComm::let_go() {
  while (true) {
    std::vector<std::function<void()>> acts;
    {
      std::lock_guard lock(mutex_);
      if (when_gone_.empty()) {
        stage_ = Stage::gone;
        return;
      }
      acts.swap(when_gone_);
    }
    for (const auto& act : acts) act();
  }
}

// Without a thread it stays as it is: to call here could block for ever.
void SharedComm::end_on_thread(void (SharedComm::*end)()) noexcept {
  try {
    start_helper_thread(
        thread_name,
        [self = shared_from_this(), end] {
          std::optional<RelaxedCapture> relaxed;
          if (self->cuda_ != nullptr) relaxed.emplace(*self->cuda_);
          ((*self).*end)();
        },
        [](std::string_view) {})
        .detach();
  } catch (...) {  // NOLINT: see above
  }
}

// NCCL frees the communicator, and another thread may be about to call it, or in a call.
void SharedComm::await_users() {
  const auto until = std::chrono::steady_clock::now() + longest_call;
  const auto are_there = [this] {
    std::lock_guard lock(mutex_);
    return users_ > 0;
  };
  while (are_there() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(pause_between_polls);
}

// A call that has failed has made none; of one that has not, NCCL may still be about to give it.
void SharedComm::do_abort() {
  while (gives_one_ && comm() == nullptr && !error_)
    std::this_thread::sleep_for(pause_between_polls);
  await_users();
  if (comm() != nullptr && nccl_.abort.pointer != nullptr) nccl_.abort.pointer(comm());
  let_go();
}

// Ranks wait for each other in finalize. Where it fails, abort frees what is left.
void SharedComm::do_finish() {
  try {
    nccl_api::Result state = call(nccl_, nccl_.finalize, comm());
    while (state == nccl_api::in_progress) {
      std::this_thread::sleep_for(pause_between_polls);
      call(nccl_, nccl_.get_async_error, comm(), &state);
      if (std::lock_guard lock(mutex_); given_up_) break;
    }
    if (state == nccl_api::success) {
      call(nccl_, nccl_.destroy, comm());
      return let_go();
    }
  } catch (const Error&) {  // NOLINT: abort is the answer
  }
  do_abort();
}

}  // namespace hymn
