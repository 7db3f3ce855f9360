#include "control/frame.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace hymn {
namespace {

constexpr std::uint32_t frame_magic = 0x6e6d7968;  // "hymn"
constexpr std::uint32_t version = 1;
constexpr std::size_t word = sizeof(std::uint32_t);

void put(std::span<std::byte> to, std::uint32_t value) {
  for (std::size_t i = 0; i < word; ++i) to[i] = std::byte(value >> (8 * i));
}

std::uint32_t get(std::span<const std::byte> from) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < word; ++i)
    value |= std::to_integer<std::uint32_t>(from[i]) << (8 * i);
  return value;
}

}  // namespace

std::array<std::byte, 8> greeting() {
  std::array<std::byte, 2 * word> bytes{};
  put(std::span(bytes).first<word>(), frame_magic);
  put(std::span(bytes).last<word>(), version);
  return bytes;
}

Bytes frame(std::span<const std::byte> payload) {
  if (payload.size() > std::numeric_limits<std::uint32_t>::max())
    throw UsageError(fmt::format("a message of {} bytes does not fit into a frame", payload.size()),
                     {.remedy = "send it in parts below 4 GiB"});
  Bytes framed(word + payload.size());
  put(std::span(framed).first(word), static_cast<std::uint32_t>(payload.size()));
  std::copy(payload.begin(), payload.end(), framed.begin() + word);
  return framed;
}

void FrameReader::feed(std::span<const std::byte> bytes) {
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(taken_));
  taken_ = 0;
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

bool FrameReader::take_greeting() {
  const auto expected = greeting();
  const auto have = rest();
  const auto seen = std::min(have.size(), expected.size());
  // Whoever says anything else is told apart by its first wrong byte: nothing more is waited for.
  if (!std::equal(have.begin(), have.begin() + static_cast<std::ptrdiff_t>(std::min(seen, word)),
                  expected.begin()))
    throw NetworkError("the peer does not speak hymn's protocol");
  if (seen < expected.size()) return false;
  if (const std::uint32_t theirs = get(have.subspan(word)); theirs != version)
    throw NetworkError(
        fmt::format("the peer speaks version {} of the protocol, this process {}", theirs, version),
        {.remedy = "let all ranks run the same version of hymn"});
  taken_ += expected.size();
  return true;
}

std::optional<Bytes> FrameReader::next() {
  if (!greeted_ && !(greeted_ = take_greeting())) return std::nullopt;
  const auto have = rest();
  if (have.size() < word) return std::nullopt;
  const std::size_t length = get(have);
  if (length > limit_)
    throw NetworkError(
        fmt::format("the peer sends a frame of {} bytes, and the limit is {}", length, limit_));
  if (have.size() - word < length) return std::nullopt;
  const auto payload = have.subspan(word, length);
  taken_ += word + length;
  return Bytes(payload.begin(), payload.end());
}

}  // namespace hymn
