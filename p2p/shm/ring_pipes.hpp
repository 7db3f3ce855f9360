// Long messages through the pipes of rings: how large the pipe is, and how they are cut into
// pieces.
#pragma once

#include "p2p/shm/channel.hpp"
#include "p2p/shm/message_ring.hpp"

namespace hymn {

/// One member's pipes in a set of rings. For one thread at a time.
class RingPipes {
 public:
  RingPipes(ShmChannel& channel, RingAreas areas);

  /// Before a message is written: all rings of this member have memory. Nobody else needs it: a
  /// ring that nothing has been written to reads as empty. ResourceError where there is none.
  void reserve() {
    if (!is_reserved_) [[unlikely]]
      reserve_rings();
  }
  /// Before a message of so many bytes is announced: takes the pipe that suits it.
  void choose(RingWriter& writer, std::size_t bytes);
  /// How much moves in one call, however fast the other side is: others wait for this thread, or
  /// for the lock that it holds. More than any pipe holds, so that whoever leaves for this reason
  /// has been rung by what the other side has done meanwhile, and does not fall asleep over the
  /// rest.
  static constexpr std::size_t most_at_once = std::size_t{4} << 20;

  /// Writes what there is room for, and counts it in `done`; true when all has been written.
  bool write(RingWriter& writer, const std::byte* from, std::size_t bytes, std::size_t& done);
  /// Reads what has come, at most up to `limit` bytes of the message altogether; true when all has
  /// been read. `to` may be null: then it goes nowhere.
  bool read(RingReader& reader, std::byte* to, std::size_t bytes, std::size_t& done,
            std::size_t limit = SIZE_MAX);

 private:
  void reserve_rings();
  std::size_t far_pipe();

  ShmChannel* channel_;
  RingAreas areas_;
  bool is_reserved_ = false;
  std::size_t far_pipe_ = 0;
  bool has_asked_ = false;
};

}  // namespace hymn
