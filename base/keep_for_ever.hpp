// What something outside of hymn may still use, for nobody knows how long.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

namespace hymn {

/// Keeps it to the end of the process, without ending it then. Thread-safe.
template <class T>
void keep_for_ever(T thing) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<T>();
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(thing));
}

}  // namespace hymn
