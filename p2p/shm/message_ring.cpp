#include "p2p/shm/message_ring.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace hymn {
namespace {

using Line = RingLine;
constexpr std::size_t line_bytes = ring_line_bytes;

// The first word of a message: whether it is there, how far its data lies from a line, the binary
// logarithm of the pipe's capacity (0: the message is in lines), the length.
constexpr std::uint64_t is_there = 1;
constexpr unsigned offset_shift = 1;
constexpr unsigned pipe_shift = 7;
constexpr unsigned length_shift = 13;

std::uint64_t word_of(std::size_t bytes, unsigned offset, std::size_t pipe_bytes) {
  const auto pipe = pipe_bytes == 0 ? 0u : static_cast<unsigned>(std::countr_zero(pipe_bytes));
  return is_there | std::uint64_t{offset} << offset_shift | std::uint64_t{pipe} << pipe_shift |
         std::uint64_t{bytes} << length_shift;
}

unsigned offset_of(const void* data) {
  return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(data) % line_bytes);
}

/// Lines of a short message: one where it holds everything, else the data follows from the next on.
std::uint64_t lines_of(std::size_t bytes, unsigned offset) {
  return bytes <= Line::few ? 1 : 1 + (offset + bytes + line_bytes - 1) / line_bytes;
}

/// Where a long message begins in the pipe.
std::uint64_t start_of(std::uint64_t position, unsigned offset) {
  return (position + line_bytes - 1) / line_bytes * line_bytes + offset;
}

/// The most that one member's rings to all others take.
constexpr std::size_t most_lines = std::size_t{128} << 10;
constexpr std::size_t most_far = std::size_t{4} << 20;

std::size_t share(std::size_t whole, int members, std::size_t least, std::size_t most) {
  const auto others = static_cast<std::size_t>(std::max(members - 1, 1));
  return std::clamp(std::bit_floor(whole / others), least, most);
}

std::size_t ring_bytes(const RingSizes& sizes) {
  return sizeof(RingCounters) + sizes.lines_bytes + sizes.near_pipe_bytes;
}

/// The place of the ring to `to` among those of `from`.
std::size_t place_of(int from, int to) { return static_cast<std::size_t>(to < from ? to : to - 1); }

}  // namespace

RingSizes RingSizes::for_members(int members) {
  constexpr std::size_t kb = 1024;
  const std::size_t each = share(most_lines, members, 2 * kb, 32 * kb);
  return {each, each, share(most_far, members, 32 * kb, 1024 * kb)};
}

std::size_t RingSizes::near_bytes(int members) const {
  return ring_bytes(*this) * static_cast<std::size_t>(members - 1);
}

std::size_t RingSizes::far_bytes(int members) const {
  return far_pipe_bytes * static_cast<std::size_t>(members - 1);
}

int RingAreas::add_near(RegionPlan& plan, int members) {
  return plan.add(RingSizes::for_members(members).near_bytes(members),
                  RegionPlan::Reserve::at_once);
}

int RingAreas::add_far(RegionPlan& plan, int members) {
  return plan.add(RingSizes::for_members(members).far_bytes(members),
                  RegionPlan::Reserve::on_demand);
}

RingMemory RingMemory::of(const SharedRegion& region, RingAreas areas, int from, int to) {
  RingMemory memory;
  memory.sizes = RingSizes::for_members(region.members());
  memory.place = place_of(from, to);
  std::byte* near = region.area(from, areas.near) + memory.place * ring_bytes(memory.sizes);
  memory.counters = reinterpret_cast<RingCounters*>(near);
  memory.lines = near + sizeof(RingCounters);
  memory.near_pipe = memory.lines + memory.sizes.lines_bytes;
  memory.far_pipes = region.area(from, areas.far);
  return memory;
}

// --- Writing ---

// One line more than the message needs: the word of the line behind it is cleared.
bool RingWriter::has_lines(std::uint64_t lines) {
  if (next_ + lines + 1 - lines_read_ <= memory_.line_count()) return true;
  lines_read_ = memory_.counters->lines_read.load(std::memory_order_acquire);
  return next_ + lines + 1 - lines_read_ <= memory_.line_count();
}

// The word behind the message is cleared first: stores become visible in order, and the line that
// the reader polls must not be taken away in the middle of its own.
RingLine& RingWriter::begin(std::uint64_t lines, std::uint64_t tag) {
  Line& first = memory_.line(next_);
  next_ += lines;
  if (clear_ != next_) memory_.line(next_).word.store(0, std::memory_order_relaxed);
  first.tag = tag;
  return first;
}

// Most messages take one line.
void RingWriter::prepare_next() {
  if (next_ + 2 - lines_read_ > memory_.line_count()) return;
  clear_ = next_ + 1;
  memory_.line(clear_).word.store(0, std::memory_order_relaxed);
}

RingFlag RingWriter::put(std::uint64_t tag, const void* data, std::size_t bytes) {
  const unsigned offset = bytes <= Line::few ? 0 : offset_of(data);
  const std::uint64_t lines = lines_of(bytes, offset);
  if (!has_lines(lines)) return {};
  std::byte* const to = memory_.at(next_ + 1) + offset;
  Line& first = begin(lines, tag);
  if (bytes <= Line::few) {
    if (bytes != 0) std::memcpy(first.data, data, bytes);
  } else {
    const auto* from = static_cast<const std::byte*>(data);
    const std::size_t piece = std::min(bytes, memory_.bytes_behind(to));
    std::memcpy(to, from, piece);
    if (piece != bytes) std::memcpy(memory_.lines, from + piece, bytes - piece);
  }
  return {&first.word, word_of(bytes, offset, 0)};
}

RingFlag RingWriter::announce(std::uint64_t tag, const void* data, std::size_t bytes) {
  if (!has_lines(1)) return {};
  const unsigned offset = offset_of(data);
  pipe_written_ = start_of(pipe_written_, offset);
  return {&begin(1, tag).word, word_of(bytes, offset, pipe_bytes_)};
}

std::span<std::byte> RingWriter::room() {
  // What was written to a smaller pipe and has not been read yet counts as if it lay in this one.
  auto used = [&] { return static_cast<std::size_t>(pipe_written_ - pipe_read_); };
  if (used() > pipe_bytes_ / 2) {
    pipe_read_ = memory_.counters->pipe_read.load(std::memory_order_acquire);
    // The reader may not have come to where this message begins.
    if (used() >= pipe_bytes_) return {};
  }
  const auto begin = static_cast<std::size_t>(pipe_written_ & (pipe_bytes_ - 1));
  return {memory_.pipe(pipe_bytes_) + begin, std::min(pipe_bytes_ - used(), pipe_bytes_ - begin)};
}

RingFlag RingWriter::wrote(std::size_t bytes) {
  pipe_written_ += bytes;
  return {&memory_.counters->pipe_written, pipe_written_};
}

// --- Reading ---

bool RingReader::look(MessageHead& head) const {
  const Line& first = memory_.line(next_);
  const std::uint64_t word = first.word.load(std::memory_order_acquire);
  if (word == 0) return false;
  const unsigned pipe = static_cast<unsigned>(word >> pipe_shift) & 0x3f;
  head.tag = first.tag;
  head.bytes = word >> length_shift;
  head.pipe_bytes = pipe == 0 ? 0 : std::size_t{1} << pipe;
  head.offset = static_cast<unsigned>(word >> offset_shift) & 0x3f;
  return true;
}

// The writer is told now and then only: its line would travel for every message. Never less often
// than it takes to have room for the longest short message.
RingFlag RingReader::pass(std::uint64_t lines) {
  next_ += lines;
  if (next_ - told_ < memory_.line_count() / 4) return {};
  told_ = next_;
  return {&memory_.counters->lines_read, next_};
}

RingFlag RingReader::take(const MessageHead& head, void* to, std::size_t bytes) {
  if (head.bytes <= Line::few) {
    if (bytes != 0) std::memcpy(to, memory_.line(next_).data, bytes);
  } else if (bytes != 0) {
    const std::byte* const from = memory_.at(next_ + 1) + head.offset;
    const std::size_t piece = std::min(bytes, memory_.bytes_behind(from));
    std::memcpy(to, from, piece);
    if (piece != bytes)
      std::memcpy(static_cast<std::byte*>(to) + piece, memory_.lines, bytes - piece);
  }
  return pass(lines_of(head.bytes, head.offset));
}

RingFlag RingReader::open(const MessageHead& head) {
  pipe_bytes_ = head.pipe_bytes;
  pipe_read_ = start_of(pipe_read_, head.offset);
  return pass(1);
}

std::span<const std::byte> RingReader::come(std::size_t most) const {
  const std::uint64_t written = memory_.counters->pipe_written.load(std::memory_order_acquire);
  // Nothing of this message yet, where the last one ended before its beginning.
  if (written <= pipe_read_) return {};
  const auto begin = static_cast<std::size_t>(pipe_read_ & (pipe_bytes_ - 1));
  const auto there = static_cast<std::size_t>(written - pipe_read_);
  return {memory_.pipe(pipe_bytes_) + begin, std::min({there, most, pipe_bytes_ - begin})};
}

RingFlag RingReader::read(std::size_t bytes) {
  pipe_read_ += bytes;
  return {&memory_.counters->pipe_read, pipe_read_};
}

}  // namespace hymn
