// What every store does to its values, wherever they lie.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/meeting.hpp"

namespace hymn {

/// Not thread-safe.
class StoreMap {
 public:
  void set(const std::string& key, Bytes value) { values_[key] = std::move(value); }
  /// Null when it is not there.
  const Bytes* find(const std::string& key) const;
  /// What add() would store. Throws StoreError where the value is no number, or too large a one.
  std::int64_t sum(const std::string& key, std::int64_t delta) const;
  /// Whether compare_set() would set.
  bool matches(const std::string& key, const Bytes& expected) const;
  bool erase(const std::string& key) { return values_.erase(key) > 0; }
  std::vector<std::string> missing(const std::vector<std::string>& keys) const;
  std::size_t size() const { return values_.size(); }

  std::int64_t add(const std::string& key, std::int64_t delta);
  Bytes compare_set(const std::string& key, const Bytes& expected, Bytes desired);

 private:
  std::unordered_map<std::string, Bytes> values_;
};

/// As add() stores a number.
Bytes digits_of(std::int64_t number);

}  // namespace hymn
