#include "control/sockets.hpp"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <asio/ip/address.hpp>
#include <cerrno>
#include <charconv>
#include <limits>
#include <system_error>

#include "hymn/error.hpp"

namespace hymn {
namespace {

constexpr int waiting_connections = 1024;

// Asio opens and accepts sockets without SOCK_CLOEXEC: a fork and exec on another thread could take
// them along. So they are made here, and handed to Asio.
int make_socket(const asio::ip::tcp& protocol) {
  const int number = ::socket(protocol.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (number < 0)
    throw ResourceError(
        fmt::format("cannot open a socket: {}", std::generic_category().message(errno)),
        {.remedy = "raise the limit of open files (ulimit -n)"});
  return number;
}

void set_number(asio::ip::tcp::socket& socket, int option, long long value) {
  const int number =
      static_cast<int>(std::clamp<long long>(value, 1, std::numeric_limits<int>::max()));
  // Where a system lacks one of these the connection still works.
  ::setsockopt(socket.native_handle(), IPPROTO_TCP, option, &number, sizeof number);
}

[[noreturn]] void refuse_endpoint(std::string_view text) {
  throw ConfigError(fmt::format("'{}' is not an endpoint", text),
                    {.remedy = "give address:port, such as 10.0.0.1:4711 or [::1]:4711"});
}

}  // namespace

std::string to_string(const Endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  if (endpoint.address().is_v6()) return fmt::format("[{}]:{}", address, endpoint.port());
  return fmt::format("{}:{}", address, endpoint.port());
}

Endpoint parse_endpoint(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) refuse_endpoint(text);
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  const bool in_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (in_brackets) host = host.substr(1, host.size() - 2);
  unsigned short port = 0;
  const auto [stop, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  asio::error_code error;
  const auto address = asio::ip::make_address(std::string(host), error);
  if (problem != std::errc() || stop != digits.data() + digits.size() || error ||
      address.is_v6() != in_brackets)
    refuse_endpoint(text);
  return {address, port};
}

asio::ip::tcp::socket open_socket(asio::io_context& io, const asio::ip::tcp& protocol) {
  return {io, protocol, make_socket(protocol)};
}

asio::ip::tcp::acceptor listen_at(asio::io_context& io, const Endpoint& where) {
  asio::ip::tcp::acceptor acceptor(io, where.protocol(), make_socket(where.protocol()));
  asio::error_code error;
  acceptor.set_option(asio::socket_base::reuse_address(true), error);
  acceptor.bind(where, error);
  if (!error) acceptor.listen(waiting_connections, error);
  if (!error) acceptor.non_blocking(true, error);
  if (error)
    throw NetworkError(
        fmt::format("cannot listen at {}: {}", to_string(where), error.message()),
        {.remedy = "choose an address of this host, and a port that is free (0: any)"});
  return acceptor;
}

std::optional<asio::ip::tcp::socket> accept_one(asio::io_context& io,
                                                asio::ip::tcp::acceptor& acceptor,
                                                asio::error_code& error) {
  const int number =
      ::accept4(acceptor.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  error =
      number < 0 ? asio::error_code(errno, asio::error::get_system_category()) : asio::error_code();
  if (number < 0) return std::nullopt;
  asio::error_code unknown;
  const Endpoint here = acceptor.local_endpoint(unknown);
  return asio::ip::tcp::socket(io, here.protocol(), number);
}

void tune_socket(asio::ip::tcp::socket& socket, Duration silence) {
  asio::error_code ignored;
  socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(silence).count();
  set_number(socket, TCP_KEEPIDLE, seconds / 2);
  set_number(socket, TCP_KEEPINTVL, seconds / 6);
  set_number(socket, TCP_KEEPCNT, 3);
  set_number(socket, TCP_USER_TIMEOUT,
             std::chrono::duration_cast<std::chrono::milliseconds>(silence).count());
}

}  // namespace hymn
