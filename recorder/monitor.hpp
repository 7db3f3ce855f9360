// Who watches the watchdog: if its thread hangs, somebody must still say so.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "hymn/timeout.hpp"

namespace hymn {

/// Judges by looks at a counter, not by a clock: a process that was stopped as a whole, and goes
/// on, has missed no look.
class BeatJudge {
 public:
  /// So many looks in a row that see the same count mean that the beat has stopped.
  explicit BeatJudge(int polls) : polls_(polls) {}
  bool has_stopped(std::uint64_t beats) {
    same_ = beats == last_ ? same_ + 1 : 0;
    last_ = beats;
    return same_ >= polls_;
  }

 private:
  int polls_;
  int same_ = 0;
  std::uint64_t last_ = 0;
};

/// A thread that looks at the beats, and calls `stopped` once when there have been none for
/// `timeout`.
class Monitor {
 public:
  Monitor(Duration timeout, std::function<std::uint64_t()> beats, std::function<void()> stopped);
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

 private:
  void run();

  Duration interval_;
  std::function<std::uint64_t()> beats_;
  std::function<void()> stopped_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace hymn
