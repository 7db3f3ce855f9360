// How one member of a group reaches the others by messages: a transport for each peer.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "p2p/message_port.hpp"

namespace hymn {

/// For each peer the port that carries the messages between the two. Ports name members by their
/// group ranks. Two members must have the same kind of port for each other, added in the same
/// order, or they would not hear each other.
class Transports {
 public:
  /// Of a group of so many members, all of whom `least` reaches: it is taken where nothing better
  /// does.
  Transports(int members, std::shared_ptr<MessagePort> least)
      : least_(std::move(least)), better_(static_cast<std::size_t>(members)) {}

  /// `port` reaches these peers, or all. Those that another one reaches keep it: ports are added in
  /// order of preference.
  void add(const std::shared_ptr<MessagePort>& port, std::span<const int> peers);
  void add(const std::shared_ptr<MessagePort>& port);

  const std::shared_ptr<MessagePort>& to(int peer) const {
    const auto& port = better_[static_cast<std::size_t>(peer)];
    return port != nullptr ? port : least_;
  }
  const std::shared_ptr<MessagePort>& least() const { return least_; }
  /// For collectives that send to these peers only: the port of all of them where they have the
  /// same, which costs nothing more; else one that hands each message to the port of its peer.
  std::shared_ptr<MessagePort> reaching(std::span<const int> peers) const;

 private:
  std::shared_ptr<MessagePort> least_;
  std::vector<std::shared_ptr<MessagePort>> better_;  ///< by group rank; null: nothing
};

}  // namespace hymn
