#include "p2p/tcp/tcp_frame.hpp"

#include <cstring>

#include "hymn/error.hpp"
#include "p2p/call_chain.hpp"

namespace hymn::tcp {
namespace {

constexpr std::uint32_t magic = 0x746d7968;  // "hymt"

/// As it lies in a head.
struct Packed {
  std::uint32_t magic;
  std::uint32_t kind;
  std::uint32_t length;
  std::uint32_t check;
  std::uint64_t group;
  std::uint64_t tag;
  std::uint64_t number;
  std::uint64_t value;
};
static_assert(sizeof(Packed) == head_bytes);

std::uint32_t check_of(const Packed& head) {
  std::uint64_t mixed = head.magic;
  for (const std::uint64_t word : {std::uint64_t{head.kind} << 32 | head.length, head.group,
                                   head.tag, head.number, head.value})
    mixed = mix_in(mixed ^ mixed >> 29, word);
  return static_cast<std::uint32_t>(mixed >> 32);
}

/// 0: none may follow.
std::size_t most_bytes_after(FrameKind kind) {
  switch (kind) {
    case FrameKind::eager:
      return eager_limit;
    case FrameKind::announce:
    case FrameKind::data:
      return part_limit;
    case FrameKind::cancel:
    case FrameKind::ask:
    case FrameKind::grant:
    case FrameKind::finished:
    case FrameKind::ack:
      break;
  }
  return 0;
}

bool is_kind(std::uint32_t kind) {
  return kind >= static_cast<std::uint32_t>(FrameKind::eager) &&
         kind <= static_cast<std::uint32_t>(FrameKind::ack);
}

}  // namespace

Head head_of(const Frame& frame) {
  Packed packed{.magic = magic,
                .kind = static_cast<std::uint32_t>(frame.kind),
                .length = frame.length,
                .check = 0,
                .group = frame.group,
                .tag = frame.tag,
                .number = frame.number,
                .value = frame.value};
  packed.check = check_of(packed);
  Head head;
  std::memcpy(head.data(), &packed, head.size());
  return head;
}

Frame read_head(std::span<const std::byte, head_bytes> head) {
  Packed packed;
  std::memcpy(&packed, head.data(), head.size());
  if (packed.magic != magic) throw NetworkError("what came is no frame of hymn's");
  if (packed.check != check_of(packed) || !is_kind(packed.kind))
    throw NetworkError("a frame was damaged on its way");
  const Frame frame{.kind = static_cast<FrameKind>(packed.kind),
                    .group = packed.group,
                    .tag = packed.tag,
                    .number = packed.number,
                    .value = packed.value,
                    .length = packed.length};
  if (frame.length > most_bytes_after(frame.kind))
    throw NetworkError("a frame is longer than any that hymn sends");
  return frame;
}

}  // namespace hymn::tcp
