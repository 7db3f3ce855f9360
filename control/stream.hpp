// One connection that carries frames, whoever is at its other end.
//
// All calls and all events happen on the thread that runs the io_context. An event is never called
// from within a call of the owner's, nor after close() or finish().
#pragma once

#include <array>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>

#include "control/frame.hpp"
#include "hymn/timeout.hpp"

namespace hymn {

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  struct Events {
    std::function<void(const Bytes& frame)> frame;
    /// The connection is gone, for the reason given. The last event.
    std::function<void(const std::string& why)> closed;
  };

  /// Of a connected socket. `queue_limit`: the most bytes that wait to be sent.
  Stream(asio::ip::tcp::socket socket, std::size_t queue_limit);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Greets the peer and begins to read, with the limit for strangers.
  void start(Events events);
  void set_events(Events events);
  /// The most bytes in a frame that the peer may send from now on.
  void set_frame_limit(std::size_t limit) { reader_.set_limit(limit); }

  /// Queues one frame. Where the queue is full the peer does not read: the connection is closed.
  /// False where it is, or was before.
  bool send(std::span<const std::byte> payload);

  /// At once. What has not been sent is lost.
  void close();
  /// Sends what is queued, and waits until the peer has read it and closes its end, but no longer
  /// than `limit`.
  void finish(Duration limit);

  bool is_open() const { return socket_.is_open(); }

 private:
  void fail(const std::string& why);
  void queue(std::span<const std::byte> bytes);
  void read();
  void on_read(std::size_t count);
  void write();
  void end_sending();

  asio::ip::tcp::socket socket_;
  asio::steady_timer patience_;  ///< of finish()
  std::size_t queue_limit_;
  FrameReader reader_{FrameReader::stranger_limit};
  std::shared_ptr<const Events> events_;
  std::array<std::byte, 16384> arrived_;
  Bytes queued_;
  Bytes writing_;
  bool finishing_ = false;
};

}  // namespace hymn
