// Waiting for what threads of others do.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace hymn::test {

/// Whether it comes to hold within a minute.
inline bool eventually(const std::function<bool()>& holds) {
  for (int i = 0; i < 60000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

}  // namespace hymn::test
