// What all links of a rank share.
#pragma once

#include <cstdint>

#include "base/config_parse.hpp"
#include "base/log.hpp"
#include "control/token.hpp"
#include "hymn/timeout.hpp"
#include "p2p/tcp/tcp_outlet.hpp"

namespace hymn::tcp {

/// Between two ranks.
inline constexpr std::uint64_t most_streams = config::most_tcp_streams;

struct Limits {
  Duration handshake = std::chrono::seconds(5);   ///< for a stranger to prove itself
  Duration connecting = std::chrono::seconds(3);  ///< for one attempt
  /// Without a connection before what waits for one fails. Longer than the control plane takes to
  /// say who is dead.
  Duration patience = std::chrono::seconds(15);
  std::uint64_t streams = 1;  ///< between two ranks: the lower number of both counts
};

struct LinkSite {
  int rank = -1;
  Token token{};
  Limits limits{};
  /// Told of each message that is done.
  FinishSending finish{};
  Logger logger{};
};

}  // namespace hymn::tcp
