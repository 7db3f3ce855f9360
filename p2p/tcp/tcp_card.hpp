// Where a rank listens, as it tells the others: by a store, or while a group is made.
#pragma once

#include <string>

#include "base/meeting.hpp"
#include "p2p/tcp/tcp_net.hpp"

namespace hymn::tcp {

struct Card {
  std::string host{};
  std::string port{};
  Nonce nonce{};

  /// Of one that listens.
  static Card of(const Net& net);
  void pack(Packer& packer) const;
  static Card unpack(Unpacker& unpacker);
  /// Lets `net` send to the rank whose card it is. Throws ConfigError for what is no address.
  void introduce(Net& net, int rank) const;
};

}  // namespace hymn::tcp
