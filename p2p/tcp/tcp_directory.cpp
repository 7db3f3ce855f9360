#include "p2p/tcp/tcp_directory.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>

#include "control/interface.hpp"
#include "hymn/error.hpp"
#include "p2p/tcp/tcp_card.hpp"
#include "p2p/tcp/tcp_socket.hpp"

namespace hymn::tcp {
namespace {

constexpr Duration shortest_pause = std::chrono::milliseconds(5);
constexpr Duration pause_of_each_rank = std::chrono::microseconds(100);

/// A process that has ended does not.
bool is_listening(const Address& where) {
  constexpr int limit_ms = 500;
  try {
    const Descriptor socket = begin_connect(where);
    pollfd connected{.fd = socket.number(), .events = POLLOUT, .revents = 0};
    return ::poll(&connected, 1, limit_ms) == 1 && end_of_connect(socket.number()) == 0;
  } catch (const NetworkError&) {
    return false;
  }
}

std::string key_of(int rank) { return fmt::format("tcp/{}", rank); }

}  // namespace

std::string own_address(const std::string& interface, bool one_host) {
  const auto all = interface_addresses();
  const bool is_alone = std::ranges::all_of(
      all, [](const InterfaceAddress& one) { return one.is_loopback || !one.is_up; });
  return choose_interface(all, interface, one_host || is_alone, "HYMN_INTERFACE")
      .address.to_string();
}

// Whoever comes first draws the token.
Directory::Directory(std::shared_ptr<Store> store, Net& net)
    : store_(std::move(store)),
      net_(net),
      between_looks_(std::max<Duration>(shortest_pause, net.size() * pause_of_each_rank)),
      next_look_(static_cast<std::size_t>(net.size())) {
  net_.set_token(Token::parse(store_->compare_set("tcp/token", "", Token::random().text())));
}

void Directory::add(int rank) {
  Packer packer;
  Card::of(net_).pack(packer);
  const Bytes mine = packer.packed();
  const Bytes there = store_->compare_set(key_of(rank), {}, mine);
  if (there == mine) return;
  Unpacker unpacker(there);
  const Card card = Card::unpack(unpacker);
  const Address other = Address::parse(card.host, card.port);
  if (is_listening(other))
    throw ConfigError(
        fmt::format("another process is rank {} of this world already: the one that listens at {}",
                    rank, other.text()),
        {.rank = rank, .remedy = "give each process a RANK of its own"});
  store_->set(key_of(rank), mine);  // it was a program before this one
}

bool Directory::knows(int rank) {
  if (net_.knows(rank)) return true;
  TimePoint& next_look = next_look_[static_cast<std::size_t>(rank)];
  const TimePoint now = std::chrono::steady_clock::now();
  if (now < next_look) return false;
  next_look = now + between_looks_;
  if (!store_->check({key_of(rank)})) return false;
  const Bytes said = store_->get(key_of(rank));
  Unpacker unpacker(said);
  Card::unpack(unpacker).introduce(net_, rank);
  return true;
}

}  // namespace hymn::tcp
