// Names that are made at run time, for those who hold no more than a pointer to theirs.
#pragma once

#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace hymn {

/// The same name, which stays for ever, as literals do: there are to be few. Thread-safe.
inline const std::string& kept_name(std::string name) {
  static std::mutex mutex;
  static auto* const names = new std::set<std::string>();
  const std::lock_guard lock(mutex);
  return *names->insert(std::move(name)).first;
}

}  // namespace hymn
