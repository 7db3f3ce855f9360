#include "runtime/group/completions.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/callback_scope.hpp"

namespace hymn {

void Completions::add_hook(CompletionHook hook) {
  std::lock_guard lock(mutex_);
  Hooks more = *hooks_;
  more.push_back(std::move(hook));
  hooks_ = std::make_shared<const Hooks>(std::move(more));
}

void Completions::note(CompletionInfo info) {
  std::lock_guard lock(mutex_);
  if (!hooks_->empty()) waiting_.push_back(std::move(info));
}

void Completions::call(const Hooks& hooks, const CompletionInfo& info, const Logger& logger) {
  const CallbackScope scope;
  for (const CompletionHook& hook : hooks) {
    try {
      hook(info);
    } catch (const std::exception& error) {
      logger.warning(fmt::format("a completion hook of group '{}' has thrown at {}: {}", info.group,
                                 info.name, error.what()));
    } catch (...) {
      logger.warning(fmt::format(
          "a completion hook of group '{}' has thrown at {} something that is not a std::exception",
          info.group, info.name));
    }
  }
}

void Completions::tell(const Logger& logger) {
  std::unique_lock lock(mutex_);
  if (teller_ != std::thread::id()) return;
  teller_ = std::this_thread::get_id();
  while (!waiting_.empty()) {
    const CompletionInfo info = std::move(waiting_.front());
    waiting_.pop_front();
    const auto hooks = hooks_;
    lock.unlock();
    call(*hooks, info, logger);
    lock.lock();
  }
  teller_ = {};
  told_.notify_all();
  if (!closed_) return;
  const auto ended = std::exchange(hooks_, std::make_shared<const Hooks>());
  lock.unlock();  // they end without it
}

bool Completions::settle(const Logger& logger, const Patience& patience) {
  tell(logger);
  std::unique_lock lock(mutex_);
  if (teller_ == std::this_thread::get_id()) return true;
  PatientWait wait(patience);
  return wait.until(lock, told_, [this] { return teller_ == std::thread::id(); });
}

void Completions::close(const Logger& logger, const Patience& patience) {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  settle(logger, patience);
}

}  // namespace hymn
