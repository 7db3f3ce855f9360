// What ranks do together over an Exchange: wait for a message, gather bytes from a subset, meet.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/patience.hpp"
#include "hymn/error.hpp"
#include "hymn/exchange.hpp"

namespace hymn {

using Bytes = std::vector<std::byte>;

/// Throws a TimeoutError that names who has not come, and since when this rank has waited.
// By reference: g++ 12 forgets what a function that only throws does to what it was given, and
// would free a vector that has been moved away once more.
[[noreturn]] void throw_missing(const Patience& patience, const std::vector<int>& missing,
                                TimePoint started);

/// The others have given the meeting up before this rank came.
class MissedMeeting : public TimeoutError {
 public:
  using TimeoutError::TimeoutError;
};

/// The next message with this tag from this rank. Throws TimeoutError naming the rank that did not
/// send.
ExchangeMessage receive(Exchange& exchange, int from, std::uint64_t tag, const Patience& patience);

/// Every member's bytes, in the order of `members` (global ranks, the same list on all of them,
/// this rank among them). Throws TimeoutError naming the members that did not come (in its context,
/// too), on all that did; MissedMeeting on those that come later; and UsageError where ranks gather
/// different members.
std::vector<Bytes> all_gather(Exchange& exchange, std::span<const int> members, std::uint64_t tag,
                              std::span<const std::byte> mine, const Patience& patience);

/// Bytes that travel: numbers and strings behind one another, read back in the same order.
class Packer {
 public:
  Packer& number(std::uint64_t value);
  Packer& text(std::string_view value);
  Packer& bytes(std::span<const std::byte> value);
  const Bytes& packed() const { return bytes_; }

 private:
  Bytes bytes_;
};

/// Reads what a Packer wrote. Throws NetworkError when the bytes end too soon.
class Unpacker {
 public:
  explicit Unpacker(std::span<const std::byte> bytes) : rest_(bytes) {}
  std::uint64_t number();
  /// A number of things that follow, each of at least one byte: never more than there are bytes.
  std::size_t count();
  std::string text();
  Bytes bytes();
  /// The same where they lie.
  std::span<const std::byte> view();
  bool empty() const { return rest_.empty(); }

 private:
  void need(std::size_t count) const;
  std::span<const std::byte> take(std::size_t count);
  std::span<const std::byte> rest_;
};

}  // namespace hymn
