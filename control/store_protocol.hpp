// What a TcpStore and its server say to each other: one request, one reply, each in a frame.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/meeting.hpp"

namespace hymn {

enum class StoreCall : unsigned char { set, get, add, compare_set, erase, check, wait, num_keys };

struct StoreRequest {
  std::uint64_t id = 0;  ///< the client's own; comes back with the reply
  StoreCall call{};
  std::vector<std::string> keys{};
  Bytes value{};              ///< to set, or the one desired
  Bytes expected{};           ///< of compare_set
  std::int64_t delta = 0;     ///< of add
  std::int64_t wait_ns = -1;  ///< how long get and wait may wait; negative: for ever

  friend bool operator==(const StoreRequest&, const StoreRequest&) = default;
};

enum class StoreOutcome : unsigned char { done, missing, error };

struct StoreReply {
  std::uint64_t id = 0;
  StoreOutcome outcome{};
  std::int64_t number = 0;           ///< a sum, a count, or 0 and 1 for no and yes
  Bytes value{};                     ///< of get and compare_set
  std::vector<std::string> texts{};  ///< missing keys; or an error's problem and remedy

  friend bool operator==(const StoreReply&, const StoreReply&) = default;
};

Bytes pack(const StoreRequest& request);
Bytes pack(const StoreReply& reply);

/// Throw NetworkError where the bytes are anything but a request or reply, also one with keys or
/// values that are larger than a store takes.
StoreRequest unpack_request(std::span<const std::byte> bytes);
StoreReply unpack_reply(std::span<const std::byte> bytes);

/// The most bytes that a request or reply may need; one that waits for more keys than fit is
/// refused.
std::size_t most_store_message_bytes();

/// How many keys a call has: one, or for check and wait any number.
bool has_right_keys(const StoreRequest& request);

}  // namespace hymn
