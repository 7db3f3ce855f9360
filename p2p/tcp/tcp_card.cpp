#include "p2p/tcp/tcp_card.hpp"

#include <algorithm>

namespace hymn::tcp {

Card Card::of(const Net& net) {
  const Address address = net.listens_at().value();
  return {.host = address.host(), .port = address.port(), .nonce = net.nonce()};
}

void Card::pack(Packer& packer) const { packer.text(host).text(port).bytes(nonce); }

Card Card::unpack(Unpacker& unpacker) {
  Card card{.host = unpacker.text(), .port = unpacker.text()};
  const Bytes nonce = unpacker.bytes();
  std::copy_n(nonce.begin(), std::min(nonce.size(), card.nonce.size()), card.nonce.begin());
  return card;
}

void Card::introduce(Net& net, int rank) const {
  net.introduce(rank, Address::parse(host, port), nonce);
}

}  // namespace hymn::tcp
