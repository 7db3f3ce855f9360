#include "runtime/world/pulse.hpp"

#include <chrono>

#include "base/helper_thread.hpp"

namespace hymn {
namespace {

constexpr auto interval = std::chrono::milliseconds(250);

}  // namespace

Pulse::~Pulse() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Pulse::add(int rank, std::function<void()> beat) {
  std::lock_guard lock(mutex_);
  beats_[rank] = std::move(beat);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
}

void Pulse::remove(int rank) {
  std::lock_guard lock(mutex_);
  beats_.erase(rank);
}

void Pulse::run() {
  become_helper_thread("hymn-pulse");
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, interval, [this] { return ending_; }))
    for (const auto& [rank, beat] : beats_) beat();
}

}  // namespace hymn
