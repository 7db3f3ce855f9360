// What is said on a connection between two ranks, in frames: a head of fixed size, and for three of
// them bytes of a message.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace hymn::tcp {

enum class FrameKind : unsigned char {
  // From who sends messages. All but data are numbered, one after the other.
  eager = 1,  ///< a short message
  announce,   ///< of a long one, with its first bytes: the rest is sent when somebody wants it
  cancel,     ///< of a long one that was given up
  ask,        ///< what has become of a long one
  data,       ///< a part of a long one
  // From who receives them.
  grant,     ///< of a long one: its bytes are wanted, from the one at `value` on
  finished,  ///< of a long one: nothing more of it is wanted
  ack,       ///< all numbered frames up to this one have come, and what of `value` bytes was taken
};

struct Frame {
  FrameKind kind{};
  std::uint64_t group = 0;   ///< uid
  std::uint64_t tag = 0;     ///< of a message
  std::uint64_t number = 0;  ///< of the frame; of cancel and ask, its own
  std::uint64_t value = 0;   ///< bytes, a place in them, or the number of the announcement
  std::uint32_t length = 0;  ///< bytes that follow the head
  friend bool operator==(const Frame&, const Frame&) = default;
};

inline constexpr std::size_t head_bytes = 48;
using Head = std::array<std::byte, head_bytes>;

/// Longer messages are announced: up to here two copies cost less than to wait for an answer.
inline constexpr std::size_t eager_limit = std::size_t{64} << 10;
/// In one part of a long one, and with its announcement.
inline constexpr std::size_t part_limit = std::size_t{256} << 10;
inline constexpr std::uint64_t eager_cost(std::uint64_t bytes) { return bytes + 64; }
/// What one rank may have sent to another that nobody has received, in such costs.
inline constexpr std::uint64_t eager_window = 8 * eager_cost(eager_limit);
/// How many of `bytes` go with their announcement, where `spent` is what has been sent and not been
/// received: half of the window is for short messages, and fewer than a page are not worth it.
constexpr std::uint64_t bytes_ahead(std::uint64_t bytes, std::uint64_t spent) {
  constexpr std::uint64_t least = 4096;
  constexpr std::uint64_t room = eager_window / 2;
  if (spent + eager_cost(least) > room) return 0;
  return std::min({bytes, std::uint64_t{part_limit}, room - spent - eager_cost(0)});
}

/// The order of bytes is the machine's: all ranks of a job have the same, and others are refused.
Head head_of(const Frame& frame);
/// Throws NetworkError for what nobody says: another magic word, a kind that there is not, a length
/// that its kind does not have, a head that was damaged.
Frame read_head(std::span<const std::byte, head_bytes> head);

}  // namespace hymn::tcp
