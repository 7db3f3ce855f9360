// Bytes that anybody may have sent, in pieces of any size; and what a handshake makes of them.
#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "control/frame.hpp"
#include "control/handshake.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using namespace hymn;

struct Read {
  std::vector<Bytes> frames{};
  bool refused = false;
  friend bool operator==(const Read&, const Read&) = default;
};

/// The size of each piece comes from `sizes`, again and again.
Read read_in_pieces(std::span<const std::byte> stream, std::span<const std::byte> sizes) {
  FrameReader reader(FrameReader::stranger_limit);
  Read read;
  for (std::size_t i = 0; !stream.empty() && !read.refused; ++i) {
    const std::size_t wanted =
        sizes.empty() ? stream.size() : std::to_integer<std::size_t>(sizes[i % sizes.size()]) + 1;
    const auto piece = stream.first(std::min(wanted, stream.size()));
    stream = stream.subspan(piece.size());
    reader.feed(piece);
    try {
      while (auto one = reader.next()) read.frames.push_back(*std::move(one));
    } catch (const NetworkError& error) {
      fuzz::require(!error.problem().empty(), "an error has a text");
      read.refused = true;
    }
  }
  return read;
}

/// Nobody who does not know the token gets through.
void shake_hands(const Bytes& frame) {
  static const Token token = Token::random();
  static const ServerHandshake server(token, "link");
  static ClientHandshake client(token, "link", 1);
  try {
    server.accept(frame);
    fuzz::require(false, "a server accepts only who knows the token");
  } catch (const NetworkError&) {
  }
  try {
    client.check(frame);
    fuzz::require(false, "a client trusts only who knows the token");
  } catch (const NetworkError&) {
  }
  try {
    client.hello(frame);
  } catch (const NetworkError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> input(reinterpret_cast<const std::byte*>(data), size);
  const std::size_t sizes = size == 0 ? 0 : std::min<std::size_t>(data[0] % 8, size - 1);
  const auto stream = input.subspan(std::min<std::size_t>(size, 1 + sizes));
  const Read whole = read_in_pieces(stream, {});
  const Read pieces = read_in_pieces(stream, input.subspan(std::min<std::size_t>(size, 1), sizes));
  fuzz::require(whole == pieces, "frames are the same whatever the pieces they come in");
  Bytes again;
  for (const Bytes& one : whole.frames) {
    fuzz::require(one.size() <= FrameReader::stranger_limit, "no frame is larger than the limit");
    const Bytes framed = frame(one);
    again.insert(again.end(), framed.begin(), framed.end());
    shake_hands(one);
  }
  if (!whole.frames.empty())
    fuzz::require(std::equal(again.begin(), again.end(), stream.begin() + 8),
                  "frames go back to the bytes they came from");
  return 0;
}
