#include "p2p/shm/message_ring.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace hymn {
namespace {

constexpr std::size_t line_bytes = 64;
constexpr std::uint64_t line_cells = line_bytes / ring_cell_bytes;
/// So many bytes follow the word at once: together they are four lines, and each line less counts.
/// More of them begin as far from a line as in the sender's memory, which makes copies faster.
constexpr std::size_t few = 248;

// The first word of a message: whether it is there, whether it is long, how far its data lies from
// a line, its length or the binary logarithm of the pipe's capacity, the tag.
constexpr std::uint64_t is_there = 1;
constexpr std::uint64_t is_long = 2;
constexpr unsigned offset_shift = 2;
constexpr unsigned size_shift = 8;
constexpr unsigned tag_shift = 64 - ring_tag_bits;
constexpr std::uint64_t size_mask = (1u << (tag_shift - size_shift)) - 1;

std::uint64_t word_of(std::uint64_t kind, unsigned offset, std::uint64_t size, std::uint64_t tag) {
  return is_there | kind | std::uint64_t{offset} << offset_shift | size << size_shift |
         tag << tag_shift;
}

unsigned offset_of(const void* data) {
  return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(data) % line_bytes);
}

/// How far behind its first cell, at `position`, the data of a short message begins.
std::size_t data_place(std::uint64_t position, std::size_t bytes, unsigned offset) {
  if (bytes <= few) return sizeof(std::uint64_t);
  return (line_cells - position % line_cells) * ring_cell_bytes + offset;
}

std::uint64_t cells_of(std::size_t place, std::size_t bytes) {
  return (place + bytes + ring_cell_bytes - 1) / ring_cell_bytes;
}

/// Where a long message begins in the pipe.
std::uint64_t start_of(std::uint64_t position, unsigned offset) {
  return (position + line_bytes - 1) / line_bytes * line_bytes + offset;
}

/// The most that one member's rings to all others take.
constexpr std::size_t most_cells = std::size_t{128} << 10;
constexpr std::size_t most_far = std::size_t{2} << 20;

std::size_t share(std::size_t whole, int members, std::size_t least, std::size_t most) {
  const auto others = static_cast<std::size_t>(std::max(members - 1, 1));
  return std::clamp(std::bit_floor(whole / others), least, most);
}

std::size_t ring_bytes(const RingSizes& sizes) {
  return sizeof(RingCounters) + sizes.cells_bytes + sizes.near_pipe_bytes;
}

/// The place of the ring to `to` among those of `from`.
std::size_t place_of(int from, int to) { return static_cast<std::size_t>(to < from ? to : to - 1); }

}  // namespace

RingSizes RingSizes::for_members(int members) {
  constexpr std::size_t kb = 1024;
  constexpr std::size_t most = 32 * kb;
  static_assert(most / 4 <= size_mask);
  const std::size_t each = share(most_cells, members, 2 * kb, most);
  return {each, each, share(most_far, members, 32 * kb, 1024 * kb)};
}

std::size_t RingSizes::near_bytes(int members) const {
  return ring_bytes(*this) * static_cast<std::size_t>(members - 1);
}

std::size_t RingSizes::far_bytes(int members) const {
  return far_pipe_bytes * static_cast<std::size_t>(members - 1);
}

RingAreas RingAreas::add_to(RegionPlan& plan, int members) {
  constexpr auto on_demand = RegionPlan::Reserve::on_demand;
  const RingSizes sizes = RingSizes::for_members(members);
  RingAreas areas;
  areas.near = plan.add(sizes.near_bytes(members), on_demand);
  areas.far = plan.add(sizes.far_bytes(members), on_demand);
  return areas;
}

RingMemory RingMemory::of(const SharedRegion& region, RingAreas areas, int from, int to) {
  RingMemory memory;
  memory.sizes = RingSizes::for_members(region.members());
  memory.place = place_of(from, to);
  std::byte* near = region.area(from, areas.near) + memory.place * ring_bytes(memory.sizes);
  memory.counters = reinterpret_cast<RingCounters*>(near);
  memory.cells = near + sizeof(RingCounters);
  memory.near_pipe = memory.cells + memory.sizes.cells_bytes;
  memory.far_pipes = region.area(from, areas.far);
  return memory;
}

// --- Writing ---

// One cell more than the message needs: the word behind it is cleared.
bool RingWriter::has_room(std::uint64_t cells) {
  if (next_ + cells + 1 - cells_read_ <= memory_.cell_count()) return true;
  cells_read_ = memory_.counters->cells_read.load(std::memory_order_acquire);
  return next_ + cells + 1 - cells_read_ <= memory_.cell_count();
}

// The word behind the message is cleared first: stores become visible in order, and the line that
// the reader polls must not be taken away in the middle of its own.
RingCell& RingWriter::begin(std::uint64_t cells) {
  RingCell& first = memory_.cell(next_);
  next_ += cells;
  if (clear_ != next_) memory_.cell(next_).word.store(0, std::memory_order_relaxed);
  return first;
}

// The first word of the next line. Those of this line cost nothing when it is written anyway, but
// now the reader wants it.
void RingWriter::prepare_next() {
  const std::uint64_t ahead = (next_ / line_cells + 1) * line_cells;
  if (clear_ == ahead || ahead + 1 - cells_read_ > memory_.cell_count()) return;
  clear_ = ahead;
  memory_.cell(ahead).word.store(0, std::memory_order_relaxed);
}

RingFlag RingWriter::put(std::uint64_t tag, const void* data, std::size_t bytes) {
  const unsigned offset = bytes <= few ? 0 : offset_of(data);
  const std::size_t place = data_place(next_, bytes, offset);
  const std::uint64_t cells = cells_of(place, bytes);
  if (!has_room(cells)) return {};
  std::byte* const to = memory_.at(next_, place);
  RingCell& first = begin(cells);
  if (bytes != 0) {
    const auto* from = static_cast<const std::byte*>(data);
    const std::size_t piece = std::min(bytes, memory_.bytes_behind(to));
    // The line of the word last, and all of it at once: the reader looks at it all the time.
    const std::size_t beside =
        std::min(piece, line_bytes - reinterpret_cast<std::uintptr_t>(to) % line_bytes);
    if (piece != beside) std::memcpy(to + beside, from + beside, piece - beside);
    if (piece != bytes) std::memcpy(memory_.cells, from + piece, bytes - piece);
    std::memcpy(to, from, beside);
  }
  return {&first.word, word_of(0, offset, bytes, tag)};
}

RingFlag RingWriter::announce(std::uint64_t tag, const void* data, std::size_t bytes) {
  if (!has_room(1)) return {};
  const unsigned offset = offset_of(data);
  pipe_written_ = start_of(pipe_written_, offset);
  RingCell& first = begin(1);
  first.data = bytes;
  const auto pipe = static_cast<unsigned>(std::countr_zero(pipe_bytes_));
  return {&first.word, word_of(is_long, offset, pipe, tag)};
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
  const RingCell& first = memory_.cell(next_);
  const std::uint64_t word = first.word.load(std::memory_order_acquire);
  if (word == 0) return false;
  const std::uint64_t size = word >> size_shift & size_mask;
  const bool comes_by_pipe = (word & is_long) != 0;
  head.tag = word >> tag_shift;
  head.bytes = comes_by_pipe ? first.data : size;
  head.pipe_bytes = comes_by_pipe ? std::size_t{1} << size : 0;
  head.offset = static_cast<unsigned>(word >> offset_shift) % line_bytes;
  return true;
}

// The writer is told now and then only: its line would travel for every message. Never less often
// than it takes to have room for the longest short message.
RingFlag RingReader::pass(std::uint64_t cells) {
  next_ += cells;
  if (next_ - told_ < memory_.cell_count() / 4) return {};
  told_ = next_;
  return {&memory_.counters->cells_read, next_};
}

RingFlag RingReader::take(const MessageHead& head, void* to, std::size_t bytes) {
  const std::size_t place = data_place(next_, head.bytes, head.offset);
  if (bytes != 0) {
    const std::byte* const from = memory_.at(next_, place);
    const std::size_t piece = std::min(bytes, memory_.bytes_behind(from));
    std::memcpy(to, from, piece);
    if (piece != bytes)
      std::memcpy(static_cast<std::byte*>(to) + piece, memory_.cells, bytes - piece);
  }
  return pass(cells_of(place, head.bytes));
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
