#include "runtime/world/world_store.hpp"

#include <fmt/format.h>

#include "control/interface.hpp"

namespace hymn::detail {
namespace {

// A tag of the world's exchange, beside those of world_meeting.cpp, world_control.cpp and
// world_end.cpp.
constexpr std::uint64_t tag_store = 9;

/// Between what others may keep there and a world's own keys.
constexpr const char* prefix = "world";

}  // namespace

// Whoever of this rank's threads comes later waits for the first.
std::shared_ptr<Store> WorldStore::get(Exchange& exchange, std::shared_ptr<Store> shared,
                                       bool one_host) {
  const std::lock_guard lock(mutex_);
  if (store_ != nullptr) return store_;
  auto made = std::make_shared<PrefixStore>(prefix, make(exchange, std::move(shared), one_host));
  made->set_timeout(world_.settings.default_timeout);
  return store_ = std::move(made);
}

void WorldStore::end() {
  const std::lock_guard lock(mutex_);
  store_ = nullptr;
}

std::shared_ptr<Store> WorldStore::make(Exchange& exchange, std::shared_ptr<Store> shared,
                                        bool one_host) {
  if (shared != nullptr) return shared;
  if (world_.settings.size == 1) return std::make_shared<HashStore>();
  Packer told;
  std::shared_ptr<Store> served;
  if (world_.rank() == 0) served = serve(told, one_host);
  const std::vector<int> all = world_.peers.all_ranks();
  const auto said = all_gather(
      exchange, all, tag_store, told.packed(),
      world_.making_patience("making the world's store", world_.settings.init_limit(), all));
  return served != nullptr ? served : join(said.front());
}

/// What goes wrong is told to all, who wait for it.
std::shared_ptr<Store> WorldStore::serve(Packer& told, bool one_host) const {
  try {
    const std::string host =
        choose_interface(interface_addresses(), world_.settings.config.interface, one_host,
                         "HYMN_INTERFACE")
            .address.to_string();
    const std::string token = TcpStore::make_token();
    auto store = std::make_shared<TcpStore>(TcpStoreOptions{
        .host = host, .is_server = true, .token = token, .timeout = world_.settings.init_limit()});
    told.text("").text(host).number(static_cast<std::uint64_t>(store->port())).text(token);
    return store;
  } catch (const Error& error) {
    told.text(error.problem());
    return nullptr;
  }
}

std::shared_ptr<Store> WorldStore::join(const Bytes& told) const {
  Unpacker unpacker(told);
  if (const std::string problem = unpacker.text(); !problem.empty())
    throw StoreError(fmt::format("rank 0 cannot serve the world's store: {}", problem),
                     {.rank = world_.rank(), .operation = "store"});
  TcpStoreOptions options{.host = unpacker.text()};
  options.port = static_cast<int>(unpacker.number());
  options.token = unpacker.text();
  options.timeout = world_.settings.init_limit();
  return std::make_shared<TcpStore>(options);
}

}  // namespace hymn::detail
