#include "recorder/monitor.hpp"

#include "base/helper_thread.hpp"

namespace hymn {
namespace {

constexpr int polls = 8;

}  // namespace

Monitor::Monitor(Duration timeout, std::function<std::uint64_t()> beats,
                 std::function<void()> stopped)
    : interval_(timeout / polls),
      beats_(std::move(beats)),
      stopped_(std::move(stopped)),
      thread_(start_helper_thread("hymn-monitor", [this] { run(); }, [](std::string_view) {})) {}

Monitor::~Monitor() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Monitor::run() {
  BeatJudge judge(polls);
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, interval_, [this] { return ending_; })) {
    if (!judge.has_stopped(beats_())) continue;
    stopped_();
    return;
  }
}

}  // namespace hymn
