// The C API: stores of the program's own functions.
#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "runtime/c_api/c_api.hpp"

struct hymnStoreValue {
  std::optional<hymn::Store::Value> value;
};

namespace hymn::c_api {
namespace {

using namespace std::chrono_literals;  // NOLINT

// How long between two looks at a store that cannot wait by itself.
constexpr Duration first_pause = 1ms;
constexpr Duration longest_pause = 20ms;

class FunctionStore final : public Store {
 public:
  explicit FunctionStore(const hymnStoreFunctions_t& functions) : functions_(functions) {}
  ~FunctionStore() override {
    if (functions_.free != nullptr) functions_.free(functions_.context);
  }

 protected:
  void do_set(const std::string& key, Value value) override {
    call("set", key, functions_.set, key.c_str(), value.data(), value.size());
  }
  std::optional<Value> do_get(const std::string& key, Deadline deadline) override;
  std::int64_t do_add(const std::string& key, std::int64_t delta) override {
    std::int64_t sum = 0;
    call("add", key, functions_.add, key.c_str(), delta, &sum);
    return sum;
  }
  Value do_compare_set(const std::string& key, Value expected, Value desired) override {
    hymnStoreValue there;
    call("compare_set", key, functions_.compare_set, key.c_str(), expected.data(), expected.size(),
         desired.data(), desired.size(), &there);
    return std::move(there.value).value_or(Value{});
  }
  bool do_delete(const std::string& key) override {
    int was_there = 0;
    call("delete_key", key, functions_.delete_key, key.c_str(), &was_there);
    return was_there != 0;
  }
  bool do_check(const std::vector<std::string>& keys) override {
    return ask("check", keys, functions_.check);
  }
  std::vector<std::string> do_wait(const std::vector<std::string>& keys,
                                   Deadline deadline) override;
  std::int64_t do_num_keys() override {
    if (functions_.num_keys == nullptr)
      throw UnsupportedError("the program's store has no function num_keys");
    std::int64_t keys = 0;
    call("num_keys", "", functions_.num_keys, &keys);
    return keys;
  }

 private:
  template <class Function, class... Arguments>
  void call(const char* name, const std::string& key, Function function,
            Arguments... arguments) const;
  template <class Function, class... Arguments>
  bool ask(const char* name, const std::vector<std::string>& keys, Function function,
           Arguments... arguments) const;
  bool are_there_in_time(const std::vector<std::string>& keys, Deadline deadline);

  hymnStoreFunctions_t functions_;
};

template <class Function, class... Arguments>
void FunctionStore::call(const char* name, const std::string& key, Function function,
                         Arguments... arguments) const {
  const hymnResult_t result = function(functions_.context, arguments...);
  if (result == hymnSuccess) return;
  throw StoreError(
      fmt::format("function {} of the program's store has failed{}: it has returned {} ({})", name,
                  key.empty() ? "" : " for key '" + key + "'", static_cast<int>(result),
                  hymnGetErrorString(result)));
}

// `arguments` stand between the keys and the answer.
template <class Function, class... Arguments>
bool FunctionStore::ask(const char* name, const std::vector<std::string>& keys, Function function,
                        Arguments... arguments) const {
  std::vector<const char*> names(keys.size());
  std::ranges::transform(keys, names.begin(), &std::string::c_str);
  int are_there = 0;
  call(name, keys.empty() ? "" : keys.front(), function, names.data(), names.size(), arguments...,
       &are_there);
  return are_there != 0;
}

bool FunctionStore::are_there_in_time(const std::vector<std::string>& keys, Deadline deadline) {
  if (functions_.wait != nullptr) {
    const auto left = deadline.when() - std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(std::max(left, Duration(0))).count();
    return ask("wait", keys, functions_.wait, deadline.is_never() ? -1.0 : seconds);
  }
  for (Duration pause = first_pause; !do_check(keys); pause = std::min(2 * pause, longest_pause)) {
    const TimePoint now = std::chrono::steady_clock::now();
    if (deadline.expired(now)) return false;
    std::this_thread::sleep_until(std::min(deadline.when(), now + pause));
  }
  return true;
}

// A key may be deleted between the two calls: then it is waited for again.
std::optional<Store::Value> FunctionStore::do_get(const std::string& key, Deadline deadline) {
  while (true) {
    hymnStoreValue there;
    call("get", key, functions_.get, key.c_str(), &there);
    if (there.value || !are_there_in_time({key}, deadline)) return std::move(there.value);
    if (deadline.expired(std::chrono::steady_clock::now())) return std::nullopt;
    std::this_thread::sleep_for(first_pause);
  }
}

std::vector<std::string> FunctionStore::do_wait(const std::vector<std::string>& keys,
                                                Deadline deadline) {
  std::vector<std::string> missing;
  if (are_there_in_time(keys, deadline)) return missing;
  std::ranges::copy_if(keys, std::back_inserter(missing),
                       [this](const std::string& key) { return !do_check({key}); });
  return missing;
}

}  // namespace
}  // namespace hymn::c_api

using namespace hymn::c_api;  // NOLINT: the functions below stand in no namespace

hymnResult_t hymnStoreValuePut(hymnStoreValue_t* value, const void* data, size_t bytes) {
  return guarded(__func__, [&] {
    const auto* const from = static_cast<const std::byte*>(bytes == 0 ? data : need(data, "data"));
    need(value, "value")->value.emplace(from, from + bytes);
  });
}

hymnResult_t hymnStoreCreateFrom(const hymnStoreFunctions_t* functions, hymnStore_t* store) {
  return guarded(__func__, [&] {
    *need(store, "store") = nullptr;
    const auto given =
        read_options(need(functions, "functions"), "hymnStoreFunctions_t", "functions");
    need(given.set, "functions->set");
    need(given.get, "functions->get");
    need(given.add, "functions->add");
    need(given.compare_set, "functions->compare_set");
    need(given.delete_key, "functions->delete_key");
    need(given.check, "functions->check");
    auto handle = std::make_unique<hymnStore>();  // first: a store that is made calls free
    handle->store = std::make_shared<FunctionStore>(given);
    *store = handle.release();
  });
}
