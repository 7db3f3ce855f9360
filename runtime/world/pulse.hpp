// What beats for all ranks that are threads of this process.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

namespace hymn {

/// One thread, from when there is somebody to beat for. Thread-safe.
class Pulse {
 public:
  Pulse() = default;
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;
  ~Pulse();

  /// From now on `beat` is called several times a second.
  void add(int rank, std::function<void()> beat);
  /// Waits for a call of it to end. Not from within a beat.
  void remove(int rank);

 private:
  void run();

  std::mutex mutex_;  // held while the beats are called
  std::condition_variable changed_;
  std::map<int, std::function<void()>> beats_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace hymn
