#include "runtime/world/world_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "control/interface.hpp"

namespace hymn::detail {
namespace {

// A tag of the world's exchange, beside those of world_meeting.cpp, world_control.cpp and
// world_end.cpp.
constexpr std::uint64_t tag_store = 9;

/// Between what others may keep there and a world's own keys.
constexpr const char* prefix = "world";

// Nothing else moves while a connection is tried: it is for a short time first, and longer where
// that is not enough.
constexpr Duration first_try = std::chrono::milliseconds(250);
constexpr Duration longest_try = std::chrono::seconds(4);

}  // namespace

std::shared_ptr<Store> WorldStore::get(Exchange& exchange, std::shared_ptr<Store> shared,
                                       bool one_host) {
  if (std::shared_ptr<Store> made = await()) return made;
  try {
    auto made = std::make_shared<PrefixStore>(prefix, make(exchange, std::move(shared), one_host));
    made->set_timeout(world_.settings.default_timeout);
    end_turn(made);
    return made;
  } catch (...) {
    end_turn(nullptr);
    throw;
  }
}

void WorldStore::end() {
  Patience patience;
  patience.deadline = Deadline::after(longest_try);
  PatientWait(patience).until([this] {
    const std::lock_guard lock(mutex_);
    return maker_ == std::thread::id();
  });
  const std::lock_guard lock(mutex_);
  store_ = nullptr;
  if (maker_ == std::thread::id()) served_ = nullptr;
}

Patience WorldStore::until_destroyed(Patience patience) const {
  patience.context = context();
  patience.meanwhile = [this, go_on = std::move(patience.meanwhile)] {
    if (world_.life.is_destroyed()) throw UsageError("the world has been destroyed", context());
    go_on();
  };
  return patience;
}

std::shared_ptr<Store> WorldStore::await() {
  const Patience patience = until_destroyed(world_.patience(
      "waiting for the world's store, which another thread makes", world_.settings.init_limit()));
  std::shared_ptr<Store> made;
  const auto is_my_turn_or_made = [&] {
    const std::lock_guard lock(mutex_);
    made = store_;
    if (made != nullptr) return true;
    if (maker_ == std::this_thread::get_id())
      throw UsageError("a callback asks for the world's store while its thread waits for that",
                       {.rank = world_.rank(),
                        .operation = "store",
                        .remedy = "ask for it before, and hand it to the callback"});
    if (maker_ != std::thread::id()) return false;
    maker_ = std::this_thread::get_id();
    return true;
  };
  PatientWait wait(patience);
  if (!wait.until(is_my_turn_or_made))
    throw TimeoutError(patience.purpose, wait.waited(), context());
  return made;
}

void WorldStore::end_turn(std::shared_ptr<Store> made) {
  const std::lock_guard lock(mutex_);
  store_ = std::move(made);
  maker_ = {};
}

// What the ranks have told each other stays: who fails to join afterwards tries that again alone,
// for the others have what they need, and do not come again.
std::shared_ptr<Store> WorldStore::make(Exchange& exchange, std::shared_ptr<Store> shared,
                                        bool one_host) {
  if (shared != nullptr) return shared;
  if (world_.settings.size == 1 || world_.settings.fake != nullptr)
    return std::make_shared<HashStore>();
  if (told_.empty()) told_ = meet(exchange, one_host);
  std::shared_ptr<Store> tcp = served_ != nullptr ? served_ : join();
  // For its answers; the world's own is for what waits for keys.
  tcp->set_timeout(world_.settings.default_timeout);
  return tcp;
}

Bytes WorldStore::meet(Exchange& exchange, bool one_host) {
  if (world_.rank() == 0 && served_ == nullptr) offer_ = serve(one_host);
  const std::vector<int> all = world_.peers.all_ranks();
  const auto said = all_gather(exchange, all, tag_store, offer_,
                               until_destroyed(world_.making_patience(
                                   "making the world's store", world_.settings.init_limit(), all)));
  if (const std::string problem = Unpacker(said.front()).text(); !problem.empty())
    throw StoreError(fmt::format("rank 0 cannot serve the world's store: {}", problem), context());
  return said.front();
}

/// What goes wrong is told to all, who wait for it.
Bytes WorldStore::serve(bool one_host) {
  Packer told;
  try {
    const std::string host =
        choose_interface(interface_addresses(), world_.settings.config.interface, one_host,
                         "HYMN_INTERFACE")
            .address.to_string();
    const std::string token = TcpStore::make_token();
    auto store = std::make_shared<TcpStore>(TcpStoreOptions{
        .host = host, .is_server = true, .token = token, .timeout = world_.settings.init_limit()});
    told.text("").text(host).number(static_cast<std::uint64_t>(store->port())).text(token);
    served_ = std::move(store);
  } catch (const Error& error) {
    told.text(error.problem());
  }
  return told.packed();
}

std::shared_ptr<Store> WorldStore::join() const {
  Unpacker unpacker(told_);
  (void)unpacker.text();  // no problem
  TcpStoreOptions options{.host = unpacker.text()};
  options.port = static_cast<int>(unpacker.number());
  options.token = unpacker.text();
  const Patience patience = until_destroyed(world_.making_patience(
      "joining the world's store", world_.settings.init_limit(), world_.peers.all_ranks()));
  std::shared_ptr<Store> joined;
  std::exception_ptr why;
  Duration limit = first_try;
  const auto has_joined = [&] {
    try {
      options.timeout = std::exchange(limit, std::min(2 * limit, longest_try));
      joined = std::make_shared<TcpStore>(options);
    } catch (const NetworkError&) {
      why = std::current_exception();
    }
    return joined != nullptr;
  };
  if (!PatientWait(patience).until(has_joined)) std::rethrow_exception(why);
  return joined;
}

}  // namespace hymn::detail
