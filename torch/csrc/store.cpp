// A store of torch's as one of hymn's.
//
// hymn never waits in torch's store, which would keep other threads out of it: it looks whether
// keys are there, and sleeps in between.
#include "store.hpp"

#include <chrono>

#include "errors.hpp"
#include "gil.hpp"

namespace hymn_torch {
namespace {

using Bytes = std::vector<uint8_t>;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds between_looks_for_signals{200};

struct Context {
  c10::intrusive_ptr<c10d::Store> store;
  std::shared_ptr<StoreTrouble> trouble;
};

Bytes bytes_of(const void* value, size_t bytes) {
  const auto* const begin = static_cast<const uint8_t*>(value);
  return bytes == 0 ? Bytes() : Bytes(begin, begin + bytes);
}

/// Runs `body(store)`; no exception gets past it.
template <class Body>
hymnResult_t ask(void* context, Body&& body) {
  auto& of = *static_cast<Context*>(context);
  try {
    body(*of.store);
    return hymnSuccess;
  } catch (...) {
    of.trouble->note();
    return hymnStoreError;
  }
}

hymnResult_t set(void* context, const char* key, const void* value, size_t bytes) {
  return ask(context, [&](c10d::Store& store) { store.set(key, bytes_of(value, bytes)); });
}

hymnResult_t get(void* context, const char* key, hymnStoreValue_t* value) {
  return ask(context, [&](c10d::Store& store) {
    if (!store.check({key})) return;
    const Bytes found = store.get(key);
    check(hymnStoreValuePut(value, found.data(), found.size()));
  });
}

hymnResult_t add(void* context, const char* key, int64_t delta, int64_t* sum) {
  return ask(context, [&](c10d::Store& store) { *sum = store.add(key, delta); });
}

// torch's stores return what was expected where nothing is there; hymn wants nothing then.
hymnResult_t compare_set(void* context, const char* key, const void* expected,
                         size_t expected_bytes, const void* desired, size_t desired_bytes,
                         hymnStoreValue_t* value) {
  return ask(context, [&](c10d::Store& store) {
    const Bytes found =
        store.compareSet(key, bytes_of(expected, expected_bytes), bytes_of(desired, desired_bytes));
    if (store.check({key})) check(hymnStoreValuePut(value, found.data(), found.size()));
  });
}

hymnResult_t delete_key(void* context, const char* key, int* was_there) {
  return ask(context, [&](c10d::Store& store) { *was_there = store.deleteKey(key) ? 1 : 0; });
}

hymnResult_t check_keys(void* context, const char* const* keys, size_t n, int* are_there) {
  return ask(context, [&](c10d::Store& store) {
    thread_local Clock::time_point next_signal_check;
    if (const auto now = Clock::now(); now >= next_signal_check) {
      next_signal_check = now + between_looks_for_signals;
      raise_signals();
    }
    *are_there = store.check(std::vector<std::string>(keys, keys + n)) ? 1 : 0;
  });
}

hymnResult_t num_keys(void* context, int64_t* keys) {
  return ask(context, [&](c10d::Store& store) { *keys = store.getNumKeys(); });
}

void free_context(void* context) { delete static_cast<Context*>(context); }

}  // namespace

void StoreTrouble::note() {
  const std::lock_guard<std::mutex> lock(mutex_);
  last_ = std::current_exception();
}

std::string StoreTrouble::tell() {
  std::exception_ptr last;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::swap(last, last_);
  }
  if (!last) return "";
  try {
    std::rethrow_exception(last);
  } catch (const pybind11::error_already_set&) {
    throw;
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
}

hymnStore_t make_store(c10::intrusive_ptr<c10d::Store> store,
                       std::shared_ptr<StoreTrouble> trouble) {
  auto context = std::make_unique<Context>(Context{std::move(store), std::move(trouble)});
  hymnStoreFunctions_t functions{};
  functions.size = sizeof functions;
  functions.context = context.get();
  functions.set = set;
  functions.get = get;
  functions.add = add;
  functions.compare_set = compare_set;
  functions.delete_key = delete_key;
  functions.check = check_keys;
  functions.num_keys = num_keys;
  functions.free = free_context;
  hymnStore_t made = nullptr;
  check(hymnStoreCreateFrom(&functions, &made));
  static_cast<void>(context.release());
  return made;
}

}  // namespace hymn_torch
