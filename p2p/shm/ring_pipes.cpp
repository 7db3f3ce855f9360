#include "p2p/shm/ring_pipes.hpp"

#include <algorithm>
#include <bit>

#include "hymn/error.hpp"
#include "p2p/copy_bytes.hpp"

namespace hymn {
namespace {

// Small enough that the other side soon has something to do, large enough that the flags do not
// count.
constexpr std::size_t longest_piece = std::size_t{16} << 10;
// Longer messages are not kept in caches by those who read them.
constexpr std::size_t stream_from = std::size_t{4} << 20;

}  // namespace

RingPipes::RingPipes(ShmChannel& channel, RingAreas areas) : channel_(&channel), areas_(areas) {}

void RingPipes::reserve_rings() {
  SharedRegion& region = channel_->region();
  const SharedRegion::Reserved reserved = region.reserve(areas_.near);
  if (reserved.bytes < region.plan().area(areas_.near).bytes)
    throw ResourceError("no memory for messages: " + reserved.shortage,
                        {.remedy = "give the job more memory, or run fewer ranks on this host"});
  is_reserved_ = true;
}

void RingPipes::choose(RingWriter& writer, std::size_t bytes) {
  const RingSizes sizes = RingSizes::for_members(channel_->size());
  if (bytes > sizes.near_pipe_bytes && writer.pipe_bytes() == sizes.near_pipe_bytes &&
      far_pipe() > sizes.near_pipe_bytes)
    writer.use_far_pipe(far_pipe());
}

// As many equal pipes as what is really there makes, if it is less than was asked for.
std::size_t RingPipes::far_pipe() {
  if (!has_asked_) {
    has_asked_ = true;
    const auto others = static_cast<std::size_t>(channel_->size() - 1);
    far_pipe_ = std::bit_floor(channel_->reserve_own(areas_.far) / others);
  }
  return far_pipe_;
}

bool RingPipes::write(RingWriter& writer, const std::byte* from, std::size_t bytes,
                      std::size_t& done) {
  const std::size_t piece = std::min(longest_piece, writer.pipe_bytes() / 4);
  const std::size_t end = std::min(bytes, done + most_at_once);
  while (done < end) {
    const std::span<std::byte> room = writer.room();
    if (room.empty()) return false;
    const std::size_t now = std::min({piece, room.size(), end - done});
    copy_bytes(room.data(), from + done, now, false);
    done += now;
    const RingFlag flag = writer.wrote(now);
    channel_->publish(*flag.word, flag.value);
  }
  return done == bytes;
}

bool RingPipes::read(RingReader& reader, std::byte* to, std::size_t bytes, std::size_t& done,
                     std::size_t limit) {
  const std::size_t end = std::min({bytes, limit, done + most_at_once});
  while (done < end) {
    const std::span<const std::byte> come = reader.come(end - done);
    if (come.empty()) return false;
    const std::size_t now = std::min(longest_piece, come.size());
    if (to != nullptr) copy_bytes(to + done, come.data(), now, bytes >= stream_from);
    done += now;
    const RingFlag flag = reader.read(now);
    channel_->publish(*flag.word, flag.value);
  }
  return done == bytes;
}

}  // namespace hymn
