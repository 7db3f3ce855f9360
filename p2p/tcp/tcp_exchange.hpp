// An Exchange by connections between the ranks, who learn from a store where each of them listens.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/log.hpp"
#include "hymn/exchange.hpp"
#include "hymn/store.hpp"

namespace hymn {

struct TcpExchangeSite {
  int rank = 0;
  int size = 1;
  std::string interface{};  ///< as HYMN_INTERFACE
  bool one_host = false;    ///< all ranks are on this host
  Logger logger;
  /// Asks whoever has started a rank how that has ended; unset: it has not, or nobody knows. Empty:
  /// nobody can be asked.
  std::function<std::optional<std::string>(int rank)> how_ended{};
};

/// Waits for nobody: a rank is looked for in the store when it is first sent to. What is said to it
/// before it is there waits here. All ranks give stores with the same contents, which nothing else
/// uses; whoever can read them can take part. Throws NetworkError and ResourceError where this rank
/// cannot listen, and what the store throws. Who waits for a rank that has ended before it came
/// gets a PeerError.
std::shared_ptr<Exchange> make_tcp_exchange(std::shared_ptr<Store> store,
                                            const TcpExchangeSite& site);

}  // namespace hymn
