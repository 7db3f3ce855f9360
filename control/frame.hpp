// Frames: how messages stand behind one another in a stream of bytes.
//
// Each side of a connection begins with a greeting (a magic word and the version of the protocol).
// Then come frames: the length of the payload as a 32-bit little-endian number, and the payload.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/meeting.hpp"

namespace hymn {

/// What each side sends first.
std::array<std::byte, 8> greeting();

/// The payload with its length before it. Throws UsageError for 4 GiB or more.
Bytes frame(std::span<const std::byte> payload);

/// Takes the bytes of one connection as they come and gives complete frames. What a frame may hold
/// is limited, so that a stranger cannot make us keep more than that.
class FrameReader {
 public:
  /// Strangers have little to say: the limit until somebody is known.
  static constexpr std::size_t stranger_limit = 256;
  static constexpr std::size_t default_limit = std::size_t{64} << 10;

  explicit FrameReader(std::size_t limit = default_limit) : limit_(limit) {}

  /// The most bytes in a frame, from the next one on.
  void set_limit(std::size_t limit) { limit_ = limit; }

  /// Bytes of any number, complete frames or not. Call next() until it gives nothing before the
  /// next feed().
  void feed(std::span<const std::byte> bytes);

  /// The next complete frame. Throws NetworkError, now and at every later call, where the peer did
  /// not greet as it should or a frame is larger than the limit.
  std::optional<Bytes> next();

 private:
  bool take_greeting();
  std::span<const std::byte> rest() const { return std::span(buffer_).subspan(taken_); }

  std::size_t limit_;
  bool greeted_ = false;
  Bytes buffer_;
  std::size_t taken_ = 0;  ///< bytes at the beginning of the buffer that have been given
};

}  // namespace hymn
