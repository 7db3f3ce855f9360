// Sockets of TCP that never block, and are closed on exec from their first moment.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <span>
#include <string>

#include "base/descriptor.hpp"

namespace hymn::tcp {

/// Where somebody listens, of IPv4 or IPv6.
class Address {
 public:
  /// "10.0.0.1" or "fe80::1%eth0". Throws ConfigError for what is no address.
  static Address parse(const std::string& host, const std::string& port);
  /// Where this socket is bound.
  static Address of(int socket);

  std::string host() const { return name().first; }
  std::string port() const { return name().second; }
  /// For messages: "10.0.0.1:4711", "[::1]:4711".
  std::string text() const;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t length() const { return length_; }
  int family() const { return storage_.ss_family; }

 private:
  std::pair<std::string, std::string> name() const;
  sockaddr_storage storage_{};
  socklen_t length_ = 0;
};

/// Throws NetworkError where it cannot be listened there, ResourceError for want of descriptors.
Descriptor listen_at(const Address& where);
/// Begins to connect: when it can be written to, end_of_connect() tells what has come of it. Throws
/// as listen_at().
Descriptor begin_connect(const Address& where);
/// 0, or why there is no connection.
int end_of_connect(int socket);
/// One that waits; none: `problem` says why (EAGAIN: there is none).
Descriptor accept_one(int listener, int& problem);
/// Small messages are sent at once; who is gone without a word is noticed in about ten seconds.
void tune(int socket);

inline iovec bytes_at(const std::byte* data, std::size_t bytes) {
  return {const_cast<std::byte*>(data), bytes};
}

/// What a call has moved. Nothing and not `over`: no more for now.
struct Moved {
  std::size_t bytes = 0;
  bool over = false;      ///< the connection is no more
  std::string problem{};  ///< why
};
Moved write_some(int socket, std::span<const iovec> parts);
Moved read_some(int socket, std::span<const iovec> parts);

}  // namespace hymn::tcp
