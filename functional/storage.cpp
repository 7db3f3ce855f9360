#include "functional/storage.hpp"

#include <cstdio>
#include <new>
#include <string_view>
#include <utility>

#include "hymn/error.hpp"
#include "hymn/settings.hpp"

namespace hymn::functional::detail {
namespace {

constexpr std::align_val_t alignment{64};

bool tells_info() {
  try {
    for (const Setting& setting : settings())
      if (setting.name == "HYMN_LOG_LEVEL")
        return setting.value == "info" || setting.value == "debug";
  } catch (const Error&) {
    // Who makes a world is told.
  }
  return false;
}

void tell_dropped(int rank, const std::string& operation) {
  if (!tells_info()) return;
  const std::string line = "hymn[" + std::to_string(rank) + "] info: the result of " + operation +
                           " was dropped without a look at it; it is waited for now\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

void leave_behind(std::vector<std::shared_ptr<void>> memory) {
  static std::mutex mutex;
  static auto* left = new std::vector<std::shared_ptr<void>>();
  std::lock_guard lock(mutex);
  for (std::shared_ptr<void>& each : memory) left->push_back(std::move(each));
}

Flight::~Flight() {
  if (over_ || !work_.valid()) return;
  // What an exception ends may be what the others wait for.
  if (std::uncaught_exceptions() > exceptions_)
    give_memory_up();
  else
    wait_at_the_end();
}

void Flight::wait_at_the_end() {
  tell_dropped(rank_, operation_);
  try {
    work_.wait();
  } catch (const std::exception&) {
    give_memory_up();  // whoever looks at the group next is told
  }
}

void Flight::wait() {
  std::lock_guard lock(mutex_);
  if (!over_) end();
  if (error_) std::rethrow_exception(error_);
}

bool Flight::is_over() const {
  std::lock_guard lock(mutex_);
  return over_;
}

void Flight::end() {
  over_ = true;
  try {
    if (work_.valid()) work_.wait();
    for (const std::function<void()>& finish : finishes_) finish();
  } catch (...) {
    error_ = std::current_exception();
    give_memory_up();
  }
  finishes_.clear();
  kept_.clear();
}

void Flight::give_memory_up() { leave_behind(std::exchange(kept_, {})); }

std::shared_ptr<Storage> Storage::of_bytes(std::size_t bytes) {
  void* memory = ::operator new(bytes == 0 ? 1 : bytes, alignment);
  std::shared_ptr<void> owner(memory, [](void* own) { ::operator delete(own, alignment); });
  return std::make_shared<Storage>(static_cast<std::byte*>(memory), MemoryKind::host,
                                   std::move(owner));
}

std::shared_ptr<Storage> Storage::of_meta() {
  auto storage = std::make_shared<Storage>(nullptr, MemoryKind::host, nullptr);
  storage->is_meta_ = true;
  return storage;
}

}  // namespace hymn::functional::detail
