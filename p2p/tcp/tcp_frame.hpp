// What is said on a connection between two ranks, in frames: a head of fixed size, and for two of
// them the bytes of a message.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace hymn::tcp {

enum class FrameKind : unsigned char {
  // From who sends messages. All but data are numbered, one after the other.
  eager = 1,  ///< a short message
  announce,   ///< of a long one: its bytes are sent when somebody wants them
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
inline constexpr std::size_t eager_limit = std::size_t{128} << 10;
/// In one part of a long one.
inline constexpr std::size_t part_limit = std::size_t{256} << 10;
inline constexpr std::uint64_t eager_cost(std::uint64_t bytes) { return bytes + 64; }
/// What one rank may have sent to another that nobody has received, in such costs.
inline constexpr std::uint64_t eager_window = 4 * eager_cost(eager_limit);

/// The order of bytes is the machine's: all ranks of a job have the same, and others are refused.
Head head_of(const Frame& frame);
/// Throws NetworkError for what nobody says: another magic word, a kind that there is not, a length
/// that its kind does not have, a head that was damaged.
Frame read_head(std::span<const std::byte, head_bytes> head);

}  // namespace hymn::tcp
