#include "runtime/world/pulse.hpp"

#include <chrono>

#include "base/helper_thread.hpp"
#include "base/schedule_point.hpp"

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
  if (thread_.joinable()) return;
  thread_ = start_helper_thread("hymn-pulse", [this] { run(); }, [](std::string_view) {});
}

void Pulse::remove(int rank) {
  std::lock_guard lock(mutex_);
  beats_.erase(rank);
}

void Pulse::run() {
  if (Schedule* const schedule = simulated_schedule()) schedule->serves_all();
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, interval, [this] { return ending_; }))
    // What fails for one rank is no affair of the others; the next beat comes all the same.
    for (const auto& [rank, beat] : beats_) run_guarded(beat, [](std::string_view) {});
}

}  // namespace hymn
