// What a program wants to be told of each operation that has completed.
#include "completion_hook.hpp"

#include <cstdio>
#include <exception>
#include <utility>

#include "gil.hpp"

namespace hymn_torch {
namespace {

constexpr std::chrono::seconds between_looks{2};

}  // namespace

void CompletionHook::add_pending() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++pending_;
}

void CompletionHook::drop_pending() {
  const std::lock_guard<std::mutex> lock(mutex_);
  --pending_;
  has_ended_.notify_all();
}

// Whoever comes while another thread calls the function leaves it what is to be told: the function
// is in one thread at a time.
void CompletionHook::tell(Info info) {
  std::unique_lock<std::mutex> lock(mutex_);
  ended_.push_back(std::move(info));
  if (is_calling_) return;
  is_calling_ = true;
  while (!ended_.empty()) {
    const Info next = std::move(ended_.front());
    ended_.pop_front();
    lock.unlock();
    try {
      function_(next);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "hymn-torch warning: a completion hook: %s\n", error.what());
    }
    lock.lock();
  }
  is_calling_ = false;
  has_ended_.notify_all();
}

void CompletionHook::wait_for_pending() {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto are_told = [this] { return pending_ == 0 && !is_calling_; };
  while (!has_ended_.wait_for(lock, between_looks, are_told)) {
    lock.unlock();
    raise_signals();
    lock.lock();
  }
}

PendingOperation::PendingOperation(std::shared_ptr<CompletionHook> hook) : hook_(std::move(hook)) {
  hook_->add_pending();
}

void PendingOperation::tell(c10d::OpType type, std::uint64_t sequence) const {
  const Clock::duration taken = Clock::now() - began_;
  const auto end = date_ + std::chrono::duration_cast<Date::duration>(taken);
  hook_->tell(std::make_shared<c10d::WorkInfo>(type, sequence, date_, end, taken));
}

std::function<void(bool)> PendingOperation::at_end(std::shared_ptr<PendingOperation> pending,
                                                   c10d::OpType type, std::uint64_t sequence) {
  return [pending = std::move(pending), type, sequence](bool has_succeeded) {
    if (has_succeeded) pending->tell(type, sequence);
  };
}

}  // namespace hymn_torch
