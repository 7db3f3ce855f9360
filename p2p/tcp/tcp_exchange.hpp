// An Exchange by connections between the ranks, who learn from a store where each of them listens.
#pragma once

#include <memory>
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
};

/// Waits for nobody: a rank is looked for in the store when it is first sent to. What is said to it
/// before it is there waits here. All ranks give stores with the same contents, which nothing else
/// uses; whoever can read them can take part. Throws NetworkError and ResourceError where this rank
/// cannot listen, and what the store throws.
std::shared_ptr<Exchange> make_tcp_exchange(std::shared_ptr<Store> store,
                                            const TcpExchangeSite& site);

}  // namespace hymn
