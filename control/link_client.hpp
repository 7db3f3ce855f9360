// One end of a star of links (control/link_server.hpp): a rank's connection to whoever serves.
//
// Everything happens on the one thread that runs the io_context: calls, and the handlers, which may
// make calls. Nothing blocks. The io_context must live longer than the client.
#pragma once

#include <asio/io_context.hpp>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "control/link_server.hpp"

namespace hymn {

struct LinkClientOptions {
  int rank = -1;  ///< -1 for a server that gives ranks
  Token token{};
  std::vector<Endpoint> candidates{};                      ///< where somebody may serve
  Duration per_candidate_limit = std::chrono::seconds(2);  ///< for one to answer and prove itself
  /// A candidate that refuses us, or cannot prove itself, ends the search.
  bool gives_up_when_refused = false;
  std::string service = "link";
  LinkLimits limits{};
  LinkLog log{};
};

class LinkClient {
 public:
  struct Handlers {
    std::function<void(std::size_t candidate)> connected;
    std::function<void(std::span<const std::byte> message)> message;
    /// The connection is gone, or could not be made in time. Whether to connect() again is the
    /// owner's decision.
    std::function<void(const std::string& why)> lost;
  };

  LinkClient(asio::io_context& io, LinkClientOptions options, Handlers handlers);
  /// At once: what is queued is lost, unless close() has begun to send it, and no handler is called
  /// any more.
  ~LinkClient();
  LinkClient(const LinkClient&) = delete;
  LinkClient& operator=(const LinkClient&) = delete;

  /// Tries the candidates from this one to the last, again and again, with pauses that grow from
  /// 50 ms to 1 s, until one proves itself: connected(); or until `limit` has passed: lost(). What
  /// there was before, a connection or an attempt, is given up without lost(). Throws UsageError
  /// where there is no such candidate.
  void connect(std::size_t first_candidate, Duration limit);
  bool is_connected() const;

  /// Queues a message. False where there is no connection, or it is cut off because the server does
  /// not read what is queued. Throws UsageError for a message larger than limits.frame_bytes.
  bool send(std::span<const std::byte> message);

  /// Ends the connection; what is queued is still sent for limits.farewell. No handler is called
  /// any more, unless connect() is called again.
  void close();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace hymn
