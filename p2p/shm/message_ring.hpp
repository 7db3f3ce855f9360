// Messages from one member of a region to another, in order: a ring that one writes and the other
// reads.
//
// A ring consists of cells for short messages and for the announcements of long ones, and of a pipe
// that long messages flow through piece by piece, so that both sides copy at the same time. The
// pipe is small at first; who sends long messages gets a larger one.
//
// The first word of a message says that it is there, and how. The smallest messages take a single
// cell, so that one cache line travels for several of them. So that no old data is taken for such a
// word, the writer clears the word behind a message before it shows the message.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "p2p/shm/region.hpp"

namespace hymn {

/// A flag that the other side waits for, and what it shall be set to once the data before it has
/// been written or read. Null: there is nothing to tell.
struct RingFlag {
  std::atomic<std::uint64_t>* word = nullptr;
  std::uint64_t value = 0;

  explicit operator bool() const { return word != nullptr; }
};

/// How large a member's rings to all others are, each a power of two.
struct RingSizes {
  std::size_t cells_bytes = 0;      ///< for short messages
  std::size_t near_pipe_bytes = 0;  ///< reserved with the cells
  std::size_t far_pipe_bytes = 0;   ///< reserved when a long message is first sent

  static RingSizes for_members(int members);
  /// The areas for the rings of one member.
  std::size_t near_bytes(int members) const;
  std::size_t far_bytes(int members) const;
  /// The longest message that goes through cells alone, and so without the reader's doing.
  std::size_t longest_short() const { return cells_bytes / 4; }
};

/// Where a member's rings lie in every part.
struct RingAreas {
  int near = -1;  ///< cells and near pipes, reserved when this member sends its first message
  int far = -1;

  static RingAreas add_to(RegionPlan& plan, int members);
};

/// `word` is 0, or the first of a message.
struct RingCell {
  std::atomic<std::uint64_t> word;
  std::uint64_t data;  ///< the first bytes, or the length of a long message
};
inline constexpr std::size_t ring_cell_bytes = sizeof(RingCell);
static_assert(ring_cell_bytes == 16);

/// A message carries so many bits of its tag.
inline constexpr unsigned ring_tag_bits = 42;

struct RingCounters {
  alignas(RegionPlan::line_bytes) std::atomic<std::uint64_t> cells_read;
  alignas(RegionPlan::line_bytes) std::atomic<std::uint64_t> pipe_written;
  alignas(RegionPlan::line_bytes) std::atomic<std::uint64_t> pipe_read;
};

/// The memory of one ring, as both sides see it.
struct RingMemory {
  RingCounters* counters = nullptr;
  std::byte* cells = nullptr;
  std::byte* near_pipe = nullptr;
  /// All far pipes of the writer, as large as it could get them, and which of them is this ring's.
  std::byte* far_pipes = nullptr;
  std::size_t place = 0;
  RingSizes sizes{};

  static RingMemory of(const SharedRegion& region, RingAreas areas, int from, int to);
  std::uint64_t cell_count() const { return sizes.cells_bytes / ring_cell_bytes; }
  /// `bytes` behind the cell at this position; positions count on for ever.
  std::byte* at(std::uint64_t position, std::size_t bytes = 0) const {
    return cells + ((position * ring_cell_bytes + bytes) & (sizes.cells_bytes - 1));
  }
  RingCell& cell(std::uint64_t position) const {
    return *reinterpret_cast<RingCell*>(at(position));
  }
  /// From there to the end of the cells, behind which they begin anew.
  std::size_t bytes_behind(const std::byte* place_in_cells) const {
    return sizes.cells_bytes - static_cast<std::size_t>(place_in_cells - cells);
  }
  std::byte* pipe(std::size_t capacity) const {
    return capacity > sizes.near_pipe_bytes ? far_pipes + place * capacity : near_pipe;
  }
};

/// What the reader knows of a message before it reads it.
struct MessageHead {
  std::uint64_t tag = 0;  ///< the lowest ring_tag_bits of it
  std::uint64_t bytes = 0;
  std::size_t pipe_bytes = 0;  ///< capacity of the pipe that it comes through; 0: it is short
  unsigned offset = 0;         ///< of the data from a line, as in the sender's memory
  bool is_long() const { return pipe_bytes != 0; }
};

/// The writing end. For one thread at a time.
class RingWriter {
 public:
  RingWriter() = default;
  explicit RingWriter(const RingMemory& memory)
      : memory_(memory), pipe_bytes_(memory.sizes.near_pipe_bytes) {}

  bool is_short(std::size_t bytes) const { return bytes <= memory_.sizes.longest_short(); }
  /// Writes a short message. Nothing where there is no room now.
  RingFlag put(std::uint64_t tag, const void* data, std::size_t bytes);
  /// After the flag of a message has been set: makes the next message cheaper, while the reader is
  /// busy with this one.
  void prepare_next();

  /// Announces a long message, whose bytes go through the pipe. Nothing where there is no room now.
  RingFlag announce(std::uint64_t tag, const void* data, std::size_t bytes);
  /// Where the next bytes of it go: as many as fit in one piece; none where there is no room now.
  std::span<std::byte> room();
  RingFlag wrote(std::size_t bytes);

  std::size_t pipe_bytes() const { return pipe_bytes_; }
  /// From the next message on the pipe has that many bytes: a power of two, more than the near pipe
  /// has, the same for all rings of this member, and once for all.
  void use_far_pipe(std::size_t bytes) { pipe_bytes_ = bytes; }

 private:
  bool has_room(std::uint64_t cells);
  RingCell& begin(std::uint64_t cells);

  RingMemory memory_;
  std::uint64_t next_ = 0;        // cell
  std::uint64_t cells_read_ = 0;  // as last seen
  std::uint64_t clear_ = 0;       // a cell whose word has been cleared already
  std::size_t pipe_bytes_ = 0;
  std::uint64_t pipe_written_ = 0;
  std::uint64_t pipe_read_ = 0;  // as last seen
};

/// The reading end. For one thread at a time.
class RingReader {
 public:
  RingReader() = default;
  explicit RingReader(const RingMemory& memory) : memory_(memory) {}

  /// Whether a message has come; `head` then says which.
  bool look(MessageHead& head) const;
  /// Takes the message that look() has found, if short: copies `bytes` of it, at most all.
  RingFlag take(const MessageHead& head, void* to, std::size_t bytes);

  /// Or, if long: its bytes are what the pipe gives next.
  RingFlag open(const MessageHead& head);
  /// What has come of it and lies in one piece, at most `most` bytes.
  std::span<const std::byte> come(std::size_t most) const;
  RingFlag read(std::size_t bytes);

 private:
  RingFlag pass(std::uint64_t cells);

  RingMemory memory_;
  std::uint64_t next_ = 0;  // cell
  std::uint64_t told_ = 0;  // up to where the writer knows
  std::size_t pipe_bytes_ = 0;
  std::uint64_t pipe_read_ = 0;
};

}  // namespace hymn
