// The C API: stores.
#include <fmt/format.h>

#include <algorithm>

#include "base/config.hpp"
#include "hymn/rendezvous.hpp"
#include "runtime/c_api/c_api.hpp"
#include "runtime/world/world_over.hpp"

using namespace hymn::c_api;  // NOLINT: the functions below stand in no namespace
using hymn::Store;

namespace {

/// Gives what `make()` returns to the caller.
template <class Make>
hymnResult_t make_store(const char* function, hymnStore_t* store, Make&& make) {
  return guarded(function, [&] {
    *need(store, "store") = nullptr;
    *store = new hymnStore{make()};
  });
}

Store& store_of(hymnStore_t store) { return *need(store, "store")->store; }

/// What `ask(store)` returns, to where it is wanted.
template <class T, class Ask>
hymnResult_t ask_store(const char* function, hymnStore_t store, T* result, const char* name,
                       Ask&& ask) {
  return guarded(function, [&] {
    T& to = *need(result, name);  // before the store is changed
    to = ask(store_of(store));
  });
}

std::span<const std::byte> bytes_of(const void* value, std::size_t bytes, const char* name) {
  return {static_cast<const std::byte*>(bytes == 0 ? value : need(value, name)), bytes};
}

/// Where a value goes: as much of it as there is room for.
struct Place {
  void* value;
  std::size_t capacity;
  std::size_t* bytes;

  void check() const {
    need(bytes, "bytes");
    if (capacity > 0) need(value, "value");
  }
  void take(const Store::Value& given) const {
    *bytes = given.size();
    std::copy_n(given.data(), std::min(capacity, given.size()), static_cast<std::byte*>(value));
  }
};

std::vector<std::string> keys_of(const char* const* keys, std::size_t n) {
  if (n > 0) need(keys, "keys");
  std::vector<std::string> all;
  for (std::size_t i = 0; i < n; ++i) all.emplace_back(need(keys[i], "a key"));
  return all;
}

}  // namespace

hymnResult_t hymnStoreCreateHash(hymnStore_t* store) {
  return make_store(__func__, store, [] { return std::make_shared<hymn::HashStore>(); });
}

hymnResult_t hymnStoreCreateFile(const char* path, int users, hymnStore_t* store) {
  return make_store(__func__, store,
                    [&] { return std::make_shared<hymn::FileStore>(need(path, "path"), users); });
}

hymnResult_t hymnStoreCreateTcp(const char* host, int port, int is_server, const char* token,
                                double seconds, hymnStore_t* store) {
  return make_store(__func__, store, [&] {
    hymn::TcpStoreOptions options{
        .host = need(host, "host"), .port = port, .is_server = is_server != 0};
    if (token != nullptr) options.token = token;
    options.timeout = option_timeout(seconds).or_else(options.timeout);
    return std::make_shared<hymn::TcpStore>(options);
  });
}

hymnResult_t hymnStoreCreatePrefix(const char* prefix, hymnStore_t of, hymnStore_t* store) {
  return make_store(__func__, store, [&] {
    return std::make_shared<hymn::PrefixStore>(need(prefix, "prefix"), need(of, "of")->store);
  });
}

hymnResult_t hymnWorldStore(hymnWorld_t world, hymnStore_t* store) {
  return make_store(__func__, store, [&] { return need(world, "world")->world->store(); });
}

hymnResult_t hymnStoreFree(hymnStore_t store) {
  return guarded(__func__, [&] { delete need(store, "store"); });
}

hymnResult_t hymnInitFromStore(hymnWorld_t* world, hymnStore_t store, int rank, int size,
                               const hymnWorldOptions_t* options) {
  return guarded(__func__, [&] {
    *need(world, "world") = nullptr;
    const auto exchange = hymn::exchange_over(need(store, "store")->store, rank, size);
    *world = make_world(hymn::World::over(exchange, world_options(options)));
  });
}

hymnResult_t hymnInitFromEnvironment(hymnWorld_t* world, const hymnWorldOptions_t* options) {
  return guarded(__func__, [&] {
    *need(world, "world") = nullptr;
    const hymn::WorldOptions chosen = world_options(options);
    const auto limit = hymn::detail::init_limit(chosen, hymn::Config::from_environment());
    const auto exchange = hymn::exchange_from_environment(limit);
    *world = make_world(hymn::World::over(exchange, chosen));
  });
}

hymnResult_t hymnStoreMakeToken(char token[65]) {
  return guarded(__func__, [&] {
    const std::string made = hymn::TcpStore::make_token();
    std::memcpy(need(token, "token"), made.c_str(), made.size() + 1);
  });
}

hymnResult_t hymnStoreTcpPort(hymnStore_t store, int* port) {
  return ask_store(__func__, store, port, "port", [](Store& of) {
    const auto* const tcp = dynamic_cast<const hymn::TcpStore*>(&of);
    if (tcp == nullptr) throw hymn::UsageError("the store is no TCP store: it has no port");
    return tcp->port();
  });
}

hymnResult_t hymnStoreSet(hymnStore_t store, const char* key, const void* value, size_t bytes) {
  return guarded(__func__,
                 [&] { store_of(store).set(need(key, "key"), bytes_of(value, bytes, "value")); });
}

hymnResult_t hymnStoreGet(hymnStore_t store, const char* key, double seconds, void* value,
                          size_t capacity, size_t* bytes) {
  return guarded(__func__, [&] {
    const Place place{value, capacity, bytes};
    place.check();
    place.take(store_of(store).get(need(key, "key"), option_timeout(seconds)));
  });
}

hymnResult_t hymnStoreAdd(hymnStore_t store, const char* key, int64_t delta, int64_t* sum) {
  return ask_store(__func__, store, sum, "sum",
                   [&](Store& of) { return of.add(need(key, "key"), delta); });
}

hymnResult_t hymnStoreCompareSet(hymnStore_t store, const char* key, const void* expected,
                                 size_t expected_bytes, const void* desired, size_t desired_bytes,
                                 void* value, size_t capacity, size_t* bytes) {
  return guarded(__func__, [&] {
    const Place place{value, capacity, bytes};
    place.check();
    place.take(store_of(store).compare_set(need(key, "key"),
                                           bytes_of(expected, expected_bytes, "expected"),
                                           bytes_of(desired, desired_bytes, "desired")));
  });
}

hymnResult_t hymnStoreDelete(hymnStore_t store, const char* key, int* was_there) {
  return guarded(__func__, [&] {
    const bool was = store_of(store).delete_key(need(key, "key"));
    if (was_there != nullptr) *was_there = was ? 1 : 0;
  });
}

hymnResult_t hymnStoreCheck(hymnStore_t store, const char* const* keys, size_t n, int* are_there) {
  return ask_store(__func__, store, are_there, "are_there",
                   [&](Store& of) { return of.check(keys_of(keys, n)) ? 1 : 0; });
}

hymnResult_t hymnStoreWait(hymnStore_t store, const char* const* keys, size_t n, double seconds) {
  return guarded(__func__,
                 [&] { store_of(store).wait(keys_of(keys, n), option_timeout(seconds)); });
}

hymnResult_t hymnStoreNumKeys(hymnStore_t store, int64_t* keys) {
  return ask_store(__func__, store, keys, "keys", [](Store& of) { return of.num_keys(); });
}

hymnResult_t hymnStoreSetTimeout(hymnStore_t store, double seconds) {
  return guarded(__func__, [&] { store_of(store).set_timeout(option_timeout(seconds)); });
}

hymnResult_t hymnStoreGetTimeout(hymnStore_t store, double* seconds) {
  return ask_store(__func__, store, seconds, "seconds",
                   [](Store& of) { return seconds_of(of.timeout()); });
}
