// HashStore: values in the memory of one process.
#include <condition_variable>
#include <mutex>

#include "control/store_map.hpp"
#include "hymn/store.hpp"

namespace hymn {

struct HashStore::Impl {
  std::mutex mutex;
  std::condition_variable changed;
  StoreMap map;

  /// Runs `change` and wakes whoever waits for its key.
  template <class Change>
  auto after(Change change) {
    std::unique_lock lock(mutex);
    auto result = change();
    lock.unlock();
    changed.notify_all();
    return result;
  }

  std::vector<std::string> wait(std::unique_lock<std::mutex>& lock,
                                const std::vector<std::string>& keys, Deadline deadline) {
    auto missing = map.missing(keys);
    while (!missing.empty() && !deadline.expired(std::chrono::steady_clock::now())) {
      if (deadline.is_never())
        changed.wait(lock);
      else
        changed.wait_until(lock, deadline.when());
      missing = map.missing(keys);
    }
    return missing;
  }
};

HashStore::HashStore() : impl_(std::make_unique<Impl>()) {}
HashStore::~HashStore() = default;

void HashStore::do_set(const std::string& key, Value value) {
  impl_->after([&] {
    impl_->map.set(key, std::move(value));
    return true;
  });
}

std::optional<Store::Value> HashStore::do_get(const std::string& key, Deadline deadline) {
  std::unique_lock lock(impl_->mutex);
  if (!impl_->wait(lock, {key}, deadline).empty()) return std::nullopt;
  return *impl_->map.find(key);
}

std::int64_t HashStore::do_add(const std::string& key, std::int64_t delta) {
  return impl_->after([&] { return impl_->map.add(key, delta); });
}

Store::Value HashStore::do_compare_set(const std::string& key, Value expected, Value desired) {
  return impl_->after([&] { return impl_->map.compare_set(key, expected, std::move(desired)); });
}

bool HashStore::do_delete(const std::string& key) {
  const std::lock_guard lock(impl_->mutex);
  return impl_->map.erase(key);
}

bool HashStore::do_check(const std::vector<std::string>& keys) {
  const std::lock_guard lock(impl_->mutex);
  return impl_->map.missing(keys).empty();
}

std::vector<std::string> HashStore::do_wait(const std::vector<std::string>& keys,
                                            Deadline deadline) {
  std::unique_lock lock(impl_->mutex);
  return impl_->wait(lock, keys, deadline);
}

std::int64_t HashStore::do_num_keys() {
  const std::lock_guard lock(impl_->mutex);
  return static_cast<std::int64_t>(impl_->map.size());
}

}  // namespace hymn
