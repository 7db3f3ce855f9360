// Cuts the connections of this process, one now and then, as a network might.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace hymn::test {

/// Only those of the path tcp. Until stop(), or its end.
class Cutter {
 public:
  /// Never if `every_ms` is 0.
  void start(int every_ms, std::uint64_t seed);
  void stop();
  /// How many it has cut.
  int count() const { return count_; }
  ~Cutter() { stop(); }

 private:
  std::atomic<bool> goes_on_{false};
  std::atomic<int> count_{0};
  std::thread thread_;
};

}  // namespace hymn::test
