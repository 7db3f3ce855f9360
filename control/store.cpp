#include "hymn/store.hpp"

#include <fmt/format.h>

#include <atomic>
#include <limits>
#include <utility>

namespace hymn {
namespace {

constexpr std::int64_t for_ever = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t most_keys_named = 8;
constexpr std::size_t most_of_a_key = 80;

std::string quoted(const std::string& key) {
  if (key.size() <= most_of_a_key) return fmt::format("'{}'", key);
  return fmt::format("'{}…' ({} bytes)", key.substr(0, most_of_a_key), key.size());
}

void check_key(const std::string& key) {
  if (key.size() > Store::most_key_bytes)
    throw UsageError(
        fmt::format("the key {} is longer than {} bytes", quoted(key), Store::most_key_bytes),
        {.remedy = "use a shorter key; large things are values"});
}

void check_keys(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) check_key(key);
}

void check_value(const std::string& key, std::span<const std::byte> value) {
  if (value.size() > Store::most_value_bytes)
    throw UsageError(fmt::format("the value of {} has {} bytes, and {} is the limit", quoted(key),
                                 value.size(), Store::most_value_bytes),
                     {.remedy = "split it over several keys"});
}

[[noreturn]] void throw_missing(const std::vector<std::string>& keys, Timeout timeout) {
  std::string names;
  for (std::size_t i = 0; i < keys.size() && i < most_keys_named; ++i)
    names += (i == 0 ? "" : ", ") + quoted(keys[i]);
  if (keys.size() > most_keys_named)
    names += fmt::format(" and {} more", keys.size() - most_keys_named);
  throw StoreError(
      fmt::format("waited {:.3f} s for {} {}, which nobody has set",
                  std::chrono::duration<double>(timeout.duration()).count(),
                  keys.size() == 1 ? "the key" : "the keys", names),
      {.remedy = "check that the process that sets it is alive and uses the same store and prefix, "
                 "or give a longer timeout"});
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string text_of(const Store::Value& value) {
  return {reinterpret_cast<const char*>(value.data()), value.size()};
}

Store::Value copy_of(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace

Store::Store() : timeout_ns_(Duration(std::chrono::seconds(300)).count()) {}
Store::~Store() = default;

void Store::set(const std::string& key, std::span<const std::byte> value) {
  check_key(key);
  check_value(key, value);
  do_set(key, copy_of(value));
}

void Store::set(const std::string& key, std::string_view value) { set(key, bytes_of(value)); }

Store::Value Store::get(const std::string& key, Timeout timeout) {
  check_key(key);
  const Timeout limit = timeout.or_else(this->timeout());
  auto value = do_get(key, Deadline::after(limit));
  if (!value) throw_missing({key}, limit);
  return *std::move(value);
}

std::string Store::get_text(const std::string& key, Timeout timeout) {
  return text_of(get(key, timeout));
}

std::int64_t Store::add(const std::string& key, std::int64_t delta) {
  check_key(key);
  return do_add(key, delta);
}

Store::Value Store::compare_set(const std::string& key, std::span<const std::byte> expected,
                                std::span<const std::byte> desired) {
  check_key(key);
  check_value(key, expected);
  check_value(key, desired);
  return do_compare_set(key, copy_of(expected), copy_of(desired));
}

std::string Store::compare_set(const std::string& key, std::string_view expected,
                               std::string_view desired) {
  return text_of(compare_set(key, bytes_of(expected), bytes_of(desired)));
}

bool Store::delete_key(const std::string& key) {
  check_key(key);
  return do_delete(key);
}

bool Store::check(const std::vector<std::string>& keys) {
  check_keys(keys);
  return do_check(keys);
}

void Store::wait(const std::vector<std::string>& keys, Timeout timeout) {
  check_keys(keys);
  const Timeout limit = timeout.or_else(this->timeout());
  const auto missing = do_wait(keys, Deadline::after(limit));
  if (!missing.empty()) throw_missing(missing, limit);
}

std::int64_t Store::num_keys() { return do_num_keys(); }

void Store::set_timeout(Timeout timeout) {
  if (!timeout.is_set())
    throw UsageError("a store has no timeout to fall back to",
                     {.remedy = "give a duration, or Timeout::none()"});
  std::atomic_ref<std::int64_t>(timeout_ns_)
      .store(timeout.is_none() ? for_ever : timeout.duration().count());
}

Timeout Store::timeout() const {
  const std::int64_t ns = std::atomic_ref(timeout_ns_).load();
  return ns == for_ever ? Timeout::none() : Timeout(Duration(ns));
}

PrefixStore::PrefixStore(std::string prefix, std::shared_ptr<Store> store)
    : prefix_(std::move(prefix)), store_(std::move(store)) {
  if (store_ == nullptr)
    throw UsageError("a PrefixStore needs a store", {.remedy = "give it one that is not null"});
  set_timeout(store_->timeout());
}
PrefixStore::~PrefixStore() = default;

std::string PrefixStore::full(const std::string& key) const {
  std::string whole = prefix_ + "/" + key;
  check_key(whole);
  return whole;
}

std::vector<std::string> PrefixStore::full(const std::vector<std::string>& keys) const {
  std::vector<std::string> whole;
  for (const std::string& key : keys) whole.push_back(full(key));
  return whole;
}

void PrefixStore::do_set(const std::string& key, Value value) {
  store_->do_set(full(key), std::move(value));
}
std::optional<Store::Value> PrefixStore::do_get(const std::string& key, Deadline deadline) {
  return store_->do_get(full(key), deadline);
}
std::int64_t PrefixStore::do_add(const std::string& key, std::int64_t delta) {
  return store_->do_add(full(key), delta);
}
Store::Value PrefixStore::do_compare_set(const std::string& key, Value expected, Value desired) {
  return store_->do_compare_set(full(key), std::move(expected), std::move(desired));
}
bool PrefixStore::do_delete(const std::string& key) { return store_->do_delete(full(key)); }
bool PrefixStore::do_check(const std::vector<std::string>& keys) {
  return store_->do_check(full(keys));
}
std::vector<std::string> PrefixStore::do_wait(const std::vector<std::string>& keys,
                                              Deadline deadline) {
  std::vector<std::string> missing = store_->do_wait(full(keys), deadline);
  for (std::string& key : missing) key.erase(0, prefix_.size() + 1);
  return missing;
}
std::int64_t PrefixStore::do_num_keys() { return store_->do_num_keys(); }

}  // namespace hymn
