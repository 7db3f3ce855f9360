// Where the ranks of a Net listen, as they tell each other in a store.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hymn/store.hpp"
#include "p2p/tcp/tcp_net.hpp"

namespace hymn::tcp {

/// Where this rank is to listen: at the loopback if all ranks are on `one_host`, and where there is
/// no network. Throws ConfigError for an interface (as HYMN_INTERFACE) that is not there.
std::string own_address(const std::string& interface, bool one_host);

/// Gives the net its token, and the addresses of others when they are wanted. Not thread-safe.
class Directory {
 public:
  Directory(std::shared_ptr<Store> store, Net& net);
  /// This rank, which listens. Throws ConfigError where another process has come as that.
  void add(int rank);
  /// Whether it can be sent to. Looks into the store for who is not known yet, now and then.
  bool knows(int rank);
  /// For one rank. With hundreds of them the store has as much to do as with a few.
  Duration between_looks() const { return between_looks_; }

 private:
  std::shared_ptr<Store> store_;
  Net& net_;
  Duration between_looks_;
  std::vector<TimePoint> next_look_;  ///< by rank
};

}  // namespace hymn::tcp
