// Streams of bytes between processes of one host that share memory: for a protocol of its own,
// which needs no group.
//
// Between every two of them there is one in each direction: the pipe of a message ring
// (p2p/shm/message_ring.hpp), through which a single message flows that never ends. Nobody waits in
// the kernel here. A process says that it is about to sleep; whoever has something for it is then
// told to wake it, by a means that both have beside the memory.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>

#include "base/meeting.hpp"
#include "base/private.hpp"
#include "hymn/timeout.hpp"

namespace hymn {

/// One end of the two streams between this process and another. One thread at a time writes, and
/// one at a time reads. What the other process does to the memory, nothing beside it is touched.
class ByteStream {
 public:
  ByteStream() = default;
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;
  virtual ~ByteStream() = default;

  /// The most that can have been written and not been read.
  virtual std::size_t capacity() const = 0;

  /// Takes as many bytes as there is room for, up to a bound, and tells how many.
  virtual std::size_t write(std::span<const iovec> pieces) = 0;
  /// For who writes, after less than all was taken: the other end is to wake this process when
  /// there is room, which counts as news of ByteStreams then. True: there is room already.
  virtual bool want_room() = 0;
  /// For who writes: no longer.
  virtual void want_no_room() = 0;
  /// Whether there has come room since want_room(). Any thread.
  virtual bool has_wanted_room() const = 0;

  /// What has come and lies in one piece.
  virtual std::span<const std::byte> come() const = 0;
  /// So many bytes of it are done with.
  virtual void pass(std::size_t bytes) = 0;

  /// After a write: the other process sleeps, and was not woken from here since it fell asleep.
  /// Any thread.
  virtual bool must_wake() = 0;
  /// The same after a pass(): it sleeps until there is room.
  virtual bool must_wake_for_room() = 0;

  /// Nothing of it is news any more. Any thread.
  virtual void close() = 0;
};

/// Those of one process to all others. Its functions are for one thread at a time.
class ByteStreams {
 public:
  ByteStreams() = default;
  ByteStreams(const ByteStreams&) = delete;
  ByteStreams& operator=(const ByteStreams&) = delete;
  virtual ~ByteStreams() = default;

  /// Another member than this process.
  virtual ByteStream& with(int member) = 0;

  /// Waits for news awake: what can be read, room that is wanted, or that `stop` is set. False:
  /// there is none, and to go on costs more than to sleep; at most after `patience`.
  virtual bool await(const std::atomic<bool>& stop, Duration patience) = 0;
  /// This process is about to sleep: others must wake it from now on. False: there is news, which
  /// nobody may have told.
  virtual bool begin_sleep() = 0;
  virtual void end_sleep() = 0;
};

/// How they come about, as regions do (p2p/shm/memory_region.hpp): each member sends its address to
/// all others; the first of them makes the memory and sends the ticket; then all join, and tell
/// each other how that ended. When all have, this may be destroyed; where one has not, all do
/// without.
class ByteStreamMeeting {
 public:
  ByteStreamMeeting() = default;
  ByteStreamMeeting(const ByteStreamMeeting&) = delete;
  ByteStreamMeeting& operator=(const ByteStreamMeeting&) = delete;
  virtual ~ByteStreamMeeting() = default;

  virtual Bytes address() const = 0;
  /// `addresses`: of all members. Returns the ticket. Throws ResourceError, as RegionMaker::make().
  virtual Bytes make_memory(std::span<const Bytes> addresses) = 0;
  /// Throws ResourceError, as join_region().
  virtual std::unique_ptr<ByteStreams> join(std::span<const std::byte> ticket, int members,
                                            int me) = 0;
};

/// Never throws for want of anything: that is told later.
HYMN_PRIVATE std::unique_ptr<ByteStreamMeeting> meet_for_byte_streams();

}  // namespace hymn
