// What follows a head, and where it belongs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "p2p/tcp/tcp_messages.hpp"

namespace hymn::tcp {

struct Payload {
  std::uint64_t left = 0;               ///< bytes that are still to come
  std::shared_ptr<Incoming> message{};  ///< whose they are; null: nobody's
  std::uint64_t begin = 0;              ///< the place of the first in that
  std::uint64_t place = 0;              ///< of the next

  /// Empty: they belong nowhere, or none follow.
  std::span<std::byte> room() const {
    std::byte* const to = left > 0 && message ? message->at(place) : nullptr;
    return to != nullptr ? std::span(to, left) : std::span<std::byte>();
  }
  /// What is still to come of the message.
  std::uint64_t rest() const { return message ? message->bytes - message->come : 0; }
  /// Whether another part of the same message comes behind them, most likely.
  bool is_followed_by_more() const {
    return message && message->granted && place + left < message->bytes;
  }
};

}  // namespace hymn::tcp
