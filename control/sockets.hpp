// TCP sockets as the control plane wants them: closed on exec from their first moment, without
// delays, and failing when the other end is silent for too long.
#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "hymn/timeout.hpp"

namespace hymn {

using Endpoint = asio::ip::tcp::endpoint;

/// "10.0.0.1:4711", "[fe80::1]:4711".
std::string to_string(const Endpoint& endpoint);
/// The same read back. Throws ConfigError, which quotes the text.
Endpoint parse_endpoint(std::string_view text);

/// A socket that is not connected yet. Throws ResourceError when there is none to be had.
asio::ip::tcp::socket open_socket(asio::io_context& io, const asio::ip::tcp& protocol);

/// Listens there. Throws NetworkError where this address and port cannot be had.
asio::ip::tcp::acceptor listen_at(asio::io_context& io, const Endpoint& where);

/// The next connection, if one waits. Never blocks; `error` says what went wrong otherwise, and is
/// would_block where just none is there.
std::optional<asio::ip::tcp::socket> accept_one(asio::io_context& io,
                                                asio::ip::tcp::acceptor& acceptor,
                                                asio::error_code& error);

/// Sends small messages at once, and gives up a peer that acknowledges nothing for `silence`: the
/// connection then fails. Granularity: a second when nothing is on its way.
void tune_socket(asio::ip::tcp::socket& socket, Duration silence);

}  // namespace hymn
