// The middle of a star: every other rank has one connection to it, over which opaque messages go
// both ways. Who connects must prove that it knows the job's token (control/token.hpp).
//
// Everything happens on the one thread that runs the io_context: calls, and the handlers, which may
// make calls. Nothing blocks. The io_context must live longer than the server.
#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/address.hpp>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "control/sockets.hpp"
#include "control/token.hpp"

namespace hymn {

/// What the two ends of a link allow each other.
struct LinkLimits {
  std::size_t frame_bytes = std::size_t{1} << 20;  ///< in one message, either way
  /// That wait to be sent to one peer, which is cut off when there are more.
  std::size_t queue_bytes = std::size_t{8} << 20;
  Duration handshake = std::chrono::seconds(5);
  /// A peer that acknowledges nothing for so long is lost.
  Duration silence = std::chrono::seconds(10);
  /// For what is queued when a link is closed.
  Duration farewell = std::chrono::milliseconds(500);
  /// Connections that have proved nothing yet, besides one for each rank that is not here. When
  /// there are more, the oldest goes.
  std::size_t strangers = 64;
};

/// One line for the user.
using LinkLog = std::function<void(std::string_view text)>;

struct LinkServerOptions {
  Endpoint listen{};  ///< port 0: any that is free
  Token token{};
  int size = 0;  ///< ranks are 0 to size-1
  /// Clients have no ranks of their own (they say -1): each gets the lowest that is free.
  bool gives_ranks = false;
  std::string service = "link";  ///< what client and server must agree on
  LinkLimits limits{};
  LinkLog log{};
  /// Told once, when those cannot connect who should. Empty: as `log`.
  LinkLog alarm{};
};

class LinkServer {
 public:
  struct Handlers {
    /// A rank is here. A second connection of the same rank takes the place of the first, without
    /// lost(); what the first still had to say is gone.
    std::function<void(int rank)> joined;
    std::function<void(int rank, std::span<const std::byte> message)> message;
    /// Its connection is gone, for whatever reason but close(). It may join again.
    std::function<void(int rank, const std::string& why)> lost;
  };

  /// Listens from now on. Throws NetworkError where the address or port cannot be had.
  LinkServer(asio::io_context& io, LinkServerOptions options, Handlers handlers);
  /// At once: what is queued is lost, unless close() has begun to send it, and no handler is called
  /// any more.
  ~LinkServer();
  LinkServer(const LinkServer&) = delete;
  LinkServer& operator=(const LinkServer&) = delete;

  /// Where it listens.
  Endpoint endpoint() const;
  bool is_here(int rank) const;

  /// Queues a message. False where the rank is not here, or is cut off because it does not read
  /// what is queued. Throws UsageError for a message larger than limits.frame_bytes.
  bool send(int rank, std::span<const std::byte> message);
  /// To all that are here.
  void send_to_all(std::span<const std::byte> message);
  /// Ends the connection of one rank at once, without lost(). It may join again.
  void disconnect(int rank);

  /// Ends listening and all connections, whose queues are still sent for limits.farewell. No
  /// handler is called any more.
  void close();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace hymn
