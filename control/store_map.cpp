#include "control/store_map.hpp"

#include <fmt/format.h>

#include <charconv>

#include "hymn/error.hpp"

namespace hymn {

Bytes digits_of(std::int64_t number) {
  const std::string digits = std::to_string(number);
  const auto bytes = std::as_bytes(std::span(digits));
  return {bytes.begin(), bytes.end()};
}

const Bytes* StoreMap::find(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::int64_t StoreMap::sum(const std::string& key, std::int64_t delta) const {
  const Bytes* const value = find(key);
  if (value == nullptr) return delta;
  const char* const begin = reinterpret_cast<const char*>(value->data());
  const char* const end = begin + value->size();
  std::int64_t number = 0;
  const auto [stop, error] = std::from_chars(begin, end, number);
  if (error != std::errc() || stop != end)
    throw StoreError(fmt::format("add: the value of '{}' is not a number", key),
                     {.remedy = "add only to keys that add() has made"});
  std::int64_t total = 0;
  if (__builtin_add_overflow(number, delta, &total))
    throw StoreError(
        fmt::format("add: {} plus {} for '{}' does not fit into 64 bits", number, delta, key),
        {.remedy = "add less, or begin with another key"});
  return total;
}

bool StoreMap::matches(const std::string& key, const Bytes& expected) const {
  const Bytes* const value = find(key);
  return value == nullptr ? expected.empty() : *value == expected;
}

std::vector<std::string> StoreMap::missing(const std::vector<std::string>& keys) const {
  std::vector<std::string> missing;
  for (const std::string& key : keys)
    if (find(key) == nullptr) missing.push_back(key);
  return missing;
}

std::int64_t StoreMap::add(const std::string& key, std::int64_t delta) {
  const std::int64_t total = sum(key, delta);
  set(key, digits_of(total));
  return total;
}

Bytes StoreMap::compare_set(const std::string& key, const Bytes& expected, Bytes desired) {
  if (matches(key, expected)) set(key, std::move(desired));
  const Bytes* const value = find(key);
  return value == nullptr ? Bytes() : *value;
}

}  // namespace hymn
