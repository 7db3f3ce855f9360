// A server and clients of a star of links, all on one io_context that the test itself turns.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "control/frame.hpp"
#include "control/link_client.hpp"
#include "control/link_server.hpp"
#include "tests/unit/text_bytes.hpp"

namespace hymn::test {

/// Handles what is due until `done` holds; false when it does not within 20 s.
template <class Done>
bool turn_until(asio::io_context& io, Done done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    io.restart();
    io.run_one_for(std::chrono::milliseconds(10));
  }
  return true;
}

/// Handles what is due for a while, in which nothing should happen.
inline void turn_for(asio::io_context& io, Duration time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
    io.restart();
    io.run_one_for(std::chrono::milliseconds(1));
  }
}

inline Endpoint on_loopback(unsigned short port = 0) {
  return {asio::ip::address_v4::loopback(), port};
}

/// What has happened, one line each: "0 joined", "0 says hello", "0 lost: why".
using Story = std::vector<std::string>;

inline bool tells(const Story& story, const std::string& part) {
  for (const std::string& line : story)
    if (line.find(part) != std::string::npos) return true;
  return false;
}

struct TestServer {
  TestServer(asio::io_context& io, LinkServerOptions options)
      : link(io, with_log(std::move(options)), handlers()) {}

  LinkServerOptions with_log(LinkServerOptions options) {
    options.log = [this](std::string_view text) { log.emplace_back(text); };
    return options;
  }
  LinkServer::Handlers handlers() {
    return {.joined = [this](int rank) { story.push_back(std::to_string(rank) + " joined"); },
            .message =
                [this](int rank, std::span<const std::byte> message) {
                  story.push_back(std::to_string(rank) + " says " + text_of(message));
                },
            .lost =
                [this](int rank, const std::string& why) {
                  story.push_back(std::to_string(rank) + " lost: " + why);
                }};
  }

  Story story;
  Story log;
  LinkServer link;
};

struct TestClient {
  TestClient(asio::io_context& io, LinkClientOptions options)
      : link(io, with_log(std::move(options)), handlers()) {}

  LinkClientOptions with_log(LinkClientOptions options) {
    options.log = [this](std::string_view text) { log.emplace_back(text); };
    return options;
  }
  LinkClient::Handlers handlers() {
    return {
        .connected =
            [this](std::size_t which) { story.push_back("connected " + std::to_string(which)); },
        .message =
            [this](std::span<const std::byte> message) {
              story.push_back("heard " + text_of(message));
            },
        .lost = [this](const std::string& why) { story.push_back("lost: " + why); }};
  }

  Story story;
  Story log;
  LinkClient link;
};

/// A connection that does not know the rules.
class RawPeer {
 public:
  RawPeer(asio::io_context& io, const Endpoint& where) : io_(io), socket_(io) {
    socket_.connect(where);
    socket_.non_blocking(true);
  }
  void say(std::span<const std::byte> bytes) {
    asio::error_code error;  // it may have been closed
    asio::write(socket_, asio::buffer(bytes.data(), bytes.size()), error);
  }
  void say_beginning(std::span<const std::byte> bytes, std::size_t count) {
    say(bytes.first(count));
  }
  /// Reads what is there; true once the other end has closed.
  bool is_closed() {
    std::array<std::byte, 4096> part;
    asio::error_code error;
    while (!error) {
      const std::size_t count = socket_.read_some(asio::buffer(part), error);
      heard_.insert(heard_.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(count));
    }
    return error != asio::error::would_block;
  }
  /// Closed, and whatever the server does about it is done.
  bool is_sent_away() {
    const bool closed = turn_until(io_, [this] { return is_closed(); });
    io_.restart();
    io_.poll();
    return closed;
  }
  const Bytes& heard() {
    is_closed();
    return heard_;
  }

 private:
  asio::io_context& io_;
  asio::ip::tcp::socket socket_;
  Bytes heard_;
};

}  // namespace hymn::test
