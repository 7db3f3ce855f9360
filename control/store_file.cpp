// FileStore: values in a file that several processes see.
#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

#include "control/store_log.hpp"
#include "hymn/store.hpp"

namespace hymn {
namespace {

constexpr Duration first_nap = std::chrono::microseconds(200);
constexpr Duration longest_nap = std::chrono::milliseconds(20);

}  // namespace

struct FileStore::Impl {
  Impl(std::string path, int users_) : log(std::move(path)), users(users_) {}

  /// Runs `work` while the file is locked.
  template <class Work>
  auto locked(StoreLog::Access access, Timeout timeout, Work work) {
    const std::lock_guard one_thread(mutex);
    const StoreLog::Lock lock(log, access, Deadline::after(timeout));
    return work();
  }

  std::mutex mutex;
  StoreLog log;
  int users;
};

FileStore::FileStore(std::string path, int users) {
  if (users < 0)
    throw UsageError(fmt::format("a file store cannot have {} users", users),
                     {.remedy = "give the number of users, or 0 to keep the file"});
  impl_ = std::make_unique<Impl>(std::move(path), users);
  impl_->locked(StoreLog::Access::write, timeout(), [] { return true; });
}

FileStore::~FileStore() {
  if (impl_->users == 0) return;
  try {
    impl_->locked(StoreLog::Access::write, timeout(), [this] {
      impl_->log.leave(impl_->users);
      return true;
    });
  } catch (const Error&) {
    // The file stays, as it does when a user is killed.
  }
}

void FileStore::do_set(const std::string& key, Value value) {
  impl_->locked(StoreLog::Access::write, timeout(), [&] {
    impl_->log.set(key, value);
    return true;
  });
}

std::optional<Store::Value> FileStore::do_get(const std::string& key, Deadline deadline) {
  Duration nap = first_nap;
  while (true) {
    auto value =
        impl_->locked(StoreLog::Access::read, timeout(), [&]() -> std::optional<Store::Value> {
          const Bytes* const found = impl_->log.map().find(key);
          if (found == nullptr) return std::nullopt;
          return *found;
        });
    const TimePoint now = std::chrono::steady_clock::now();
    if (value || deadline.expired(now)) return value;
    std::this_thread::sleep_for(deadline.is_never() ? nap : std::min(nap, deadline.when() - now));
    nap = std::min(nap + nap / 2, longest_nap);
  }
}

std::int64_t FileStore::do_add(const std::string& key, std::int64_t delta) {
  return impl_->locked(StoreLog::Access::write, timeout(), [&] {
    const std::int64_t total = impl_->log.map().sum(key, delta);
    impl_->log.set(key, digits_of(total));
    return total;
  });
}

Store::Value FileStore::do_compare_set(const std::string& key, Value expected, Value desired) {
  return impl_->locked(StoreLog::Access::write, timeout(), [&] {
    if (impl_->log.map().matches(key, expected)) impl_->log.set(key, desired);
    const Bytes* const value = impl_->log.map().find(key);
    return value == nullptr ? Value() : *value;
  });
}

bool FileStore::do_delete(const std::string& key) {
  return impl_->locked(StoreLog::Access::write, timeout(), [&] {
    const bool was_there = impl_->log.map().find(key) != nullptr;
    if (was_there) impl_->log.erase(key);
    return was_there;
  });
}

bool FileStore::do_check(const std::vector<std::string>& keys) {
  return impl_->locked(StoreLog::Access::read, timeout(),
                       [&] { return impl_->log.map().missing(keys).empty(); });
}

std::vector<std::string> FileStore::do_wait(const std::vector<std::string>& keys,
                                            Deadline deadline) {
  Duration nap = first_nap;
  while (true) {
    auto missing = impl_->locked(StoreLog::Access::read, timeout(),
                                 [&] { return impl_->log.map().missing(keys); });
    const TimePoint now = std::chrono::steady_clock::now();
    if (missing.empty() || deadline.expired(now)) return missing;
    std::this_thread::sleep_for(deadline.is_never() ? nap : std::min(nap, deadline.when() - now));
    nap = std::min(nap + nap / 2, longest_nap);
  }
}

std::int64_t FileStore::do_num_keys() {
  return impl_->locked(StoreLog::Access::read, timeout(),
                       [&] { return static_cast<std::int64_t>(impl_->log.map().size()); });
}

}  // namespace hymn
