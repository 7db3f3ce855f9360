// Messages that have arrived at an Exchange and wait to be taken.
#pragma once

#include <deque>
#include <map>

#include "hymn/exchange.hpp"

namespace hymn {

/// By tag, in the order in which they came. Not thread-safe.
class MessageQueues {
 public:
  void add(std::uint64_t tag, ExchangeMessage message);
  /// The oldest with this tag from this rank (or Exchange::from_anyone).
  std::optional<ExchangeMessage> take(int from, std::uint64_t tag);
  std::size_t size() const { return size_; }

 private:
  std::map<std::uint64_t, std::deque<ExchangeMessage>> by_tag_;
  std::size_t size_ = 0;
};

}  // namespace hymn
