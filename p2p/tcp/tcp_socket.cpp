#include "p2p/tcp/tcp_socket.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "hymn/error.hpp"

namespace hymn::tcp {
namespace {

constexpr int most_waiting = 1024;
// What the system takes beyond what it can send at once. More would be a queue in which nothing can
// be passed.
constexpr int most_unsent = 256 << 10;

std::string text_of(int problem) { return std::generic_category().message(problem); }

Descriptor open_socket(int family) {
  Descriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket)
    throw ResourceError(fmt::format("cannot open a socket: {}", text_of(errno)),
                        {.remedy = "raise the limit of open files (ulimit -n)"});
  return socket;
}

void set(int socket, int level, int option, int value) {
  // Where a system lacks one of these the connection still works.
  ::setsockopt(socket, level, option, &value, sizeof value);
}

Moved moved(ssize_t bytes, bool reads) {
  if (bytes > 0) return {.bytes = static_cast<std::size_t>(bytes)};
  if (bytes == 0) return {.over = reads, .problem = "the other end has closed it"};
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return {};
  return {.over = true, .problem = text_of(errno)};
}

msghdr message_of(std::span<const iovec> parts) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = parts.size();
  return message;
}

}  // namespace

Address Address::parse(const std::string& host, const std::string& port) {
  addrinfo wanted{};
  wanted.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), port.c_str(), &wanted, &found) != 0)
    throw ConfigError(fmt::format("'{}' with port '{}' is no address", host, port));
  Address address;
  address.length_ = found->ai_addrlen;
  std::copy_n(reinterpret_cast<const std::byte*>(found->ai_addr), found->ai_addrlen,
              reinterpret_cast<std::byte*>(&address.storage_));
  ::freeaddrinfo(found);
  return address;
}

Address Address::of(int socket) {
  Address address;
  address.length_ = sizeof address.storage_;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address.storage_), &address.length_);
  return address;
}

std::pair<std::string, std::string> Address::name() const {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  ::getnameinfo(get(), length_, host.data(), host.size(), port.data(), port.size(),
                NI_NUMERICHOST | NI_NUMERICSERV);
  return {host.data(), port.data()};
}

std::string Address::text() const {
  const auto [host, port] = name();
  return family() == AF_INET6 ? fmt::format("[{}]:{}", host, port)
                              : fmt::format("{}:{}", host, port);
}

Descriptor listen_at(const Address& where) {
  Descriptor socket = open_socket(where.family());
  if (::bind(socket.number(), where.get(), where.length()) != 0 ||
      ::listen(socket.number(), most_waiting) != 0)
    throw NetworkError(fmt::format("cannot listen at {}: {}", where.text(), text_of(errno)),
                       {.remedy = "choose an interface of this host that is up: HYMN_INTERFACE"});
  return socket;
}

Descriptor begin_connect(const Address& where) {
  Descriptor socket = open_socket(where.family());
  tune(socket.number());
  if (::connect(socket.number(), where.get(), where.length()) != 0 && errno != EINPROGRESS &&
      errno != EINTR)
    throw NetworkError(fmt::format("cannot connect to {}: {}", where.text(), text_of(errno)));
  return socket;
}

int end_of_connect(int socket) {
  int problem = 0;
  socklen_t length = sizeof problem;
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &problem, &length) != 0) return errno;
  return problem;
}

Descriptor accept_one(int listener, int& problem) {
  Descriptor socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  problem = socket ? 0 : errno;
  return socket;
}

// A rank that reads nothing for long may lose its connection by the last of these, and nothing
// else: the next one goes on where it ended. Only who loses several so, one after the other, and
// answers on none, is given up.
void tune(int socket) {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, most_unsent);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);
}

Moved write_some(int socket, std::span<const iovec> parts) {
  const msghdr message = message_of(parts);
  return moved(::sendmsg(socket, &message, MSG_NOSIGNAL), false);
}

Moved read_some(int socket, std::span<const iovec> parts) {
  msghdr message = message_of(parts);
  return moved(::recvmsg(socket, &message, 0), true);
}

}  // namespace hymn::tcp
