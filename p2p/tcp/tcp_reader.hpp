// What comes by one socket: heads, which somebody understands, and what follows them, which is read
// to where it belongs.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "p2p/tcp/tcp_frame.hpp"
#include "p2p/tcp/tcp_inlet.hpp"
#include "p2p/tcp/tcp_payload.hpp"
#include "p2p/tcp/tcp_socket.hpp"

namespace hymn::tcp {

/// Called with the lock of its Net held.
class Reader {
 public:
  class Ear {
   public:
    virtual ~Ear() = default;
    /// Of what comes next: a greeting, or a head.
    virtual std::size_t head_size() const = 0;
    /// What follows it is told to the reader's payload().
    virtual void hear(std::span<const std::byte> head) = 0;
  };
  Reader(Inlet& inlet, Ear& ear) : inlet_(inlet), ear_(ear) {}

  /// What is there, up to a limit; `scratch`: where it may read to. Throws what is thrown by who
  /// hears of it.
  Moved read(int socket, std::span<std::byte> scratch);
  Payload& payload() { return payload_; }
  /// The connection is another.
  void reset();

 private:
  void parse(std::span<const std::byte> bytes);

  Inlet& inlet_;
  Ear& ear_;
  std::array<std::byte, head_bytes> head_{};  ///< or a greeting
  std::size_t have_ = 0;                      ///< of that
  Payload payload_{};
};

}  // namespace hymn::tcp
