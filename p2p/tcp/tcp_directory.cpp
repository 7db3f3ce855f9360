#include "p2p/tcp/tcp_directory.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/meeting.hpp"
#include "control/interface.hpp"

namespace hymn::tcp {
namespace {

/// What a rank puts into the store.
struct Card {
  std::string host{};
  std::string port{};
  Nonce nonce{};

  Bytes packed() const { return Packer().text(host).text(port).bytes(nonce).packed(); }
  static Card read(const Bytes& bytes) {
    Unpacker unpacker(bytes);
    Card card{.host = unpacker.text(), .port = unpacker.text()};
    const Bytes nonce = unpacker.bytes();
    std::copy_n(nonce.begin(), std::min(nonce.size(), card.nonce.size()), card.nonce.begin());
    return card;
  }
};

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
    : store_(std::move(store)), net_(net), next_look_(static_cast<std::size_t>(net.size())) {
  net_.set_token(Token::parse(store_->compare_set("tcp/token", "", Token::random().text())));
}

void Directory::add(int rank) {
  const Address address = net_.listens_at().value();
  const Card card{.host = address.host(), .port = address.port(), .nonce = net_.nonce()};
  store_->set(key_of(rank), card.packed());
}

bool Directory::knows(int rank) {
  if (net_.knows(rank)) return true;
  TimePoint& next_look = next_look_[static_cast<std::size_t>(rank)];
  const TimePoint now = std::chrono::steady_clock::now();
  if (now < next_look) return false;
  next_look = now + between_looks;
  if (!store_->check({key_of(rank)})) return false;
  const Card card = Card::read(store_->get(key_of(rank)));
  net_.introduce(rank, Address::parse(card.host, card.port), card.nonce);
  return true;
}

}  // namespace hymn::tcp
