// What workers say to each other, and how it stands in a stream of bytes.
//
//   head        fixed; all that short messages need
//   prefix      the name of a function, references, sizes of buffers
//   payload     packed values, then each buffer
//
// Numbers are those of the machine: all ranks of a job run on one kind of it, as hymn's objects
// want, too.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "hymn/rpc_buffer.hpp"

namespace hymn::rpc::detail {

enum class MessageKind : std::uint16_t {
  request = 1,       ///< call a function
  fetch,             ///< a copy of a value
  made,              ///< tell when a value is there
  response,          ///< to any of these
  failure,           ///< the same, with an error
  fork_added,        ///< to the owner: the sender holds a reference that another worker gave it
  fork_known,        ///< the owner's answer
  fork_settled,      ///< to who gave it: it need not keep its own any longer
  fork_dropped,      ///< to the owner: the sender holds it no longer
  creation_ask,      ///< by the owner, to who has given a value its number: is it on its way?
  creation_tell,     ///< the answer, which comes after the call that makes the value
  shutdown_come,     ///< the sender waits in shutdown(), or no longer
  shutdown_ask,      ///< how many calls have you made and served?
  shutdown_tell,     ///< the answer of who has come to shutdown() and is idle
  shutdown_done,     ///< nothing is in flight anywhere
  context_released,  ///< a pass has ended
  abort,             ///< the sender ends at once
  goodbye,           ///< the sender ends in good order
};

/// Flags of a request.
inline constexpr std::uint16_t keeps_value = 1;

/// What each field is for another kind than a request is said where that is made.
struct MessageHead {
  std::uint32_t magic = 0;
  MessageKind kind{};
  std::uint16_t flags = 0;
  std::uint64_t call = 0;      ///< the caller's number for it; of a fork for messages about forks
  std::uint64_t type = 0;      ///< of the function
  std::int64_t limit_ns = -1;  ///< left for the call; -1: any time
  std::uint64_t ref = 0;       ///< the number of a value
  std::int32_t creator = -1;   ///< the rank that has given it that number
  std::int32_t forker = -1;    ///< the rank that has given the fork its number
  std::uint32_t name_bytes = 0;
  std::uint32_t refs = 0;
  std::uint32_t buffers = 0;
  std::uint32_t unused = 0;
  std::uint64_t body_bytes = 0;
  std::uint64_t context = 0;  ///< in which it is sent; 0: none
  std::uint64_t record = 0;   ///< the number of the message there, where values have gradients
};
static_assert(sizeof(MessageHead) == 88);

/// A reference, as it travels.
struct RefWire {
  std::int32_t owner = -1;
  std::int32_t creator = -1;
  std::uint64_t number = 0;
  std::uint64_t fork = 0;  ///< the sender's number for this copy of it
  std::uint64_t type = 0;
};

struct Message {
  MessageHead head{};
  std::string name{};
  std::vector<RefWire> refs{};
  Packed packed{};

  std::size_t payload_bytes() const;
};

/// Throws UsageError for a message that a worker which takes `most_bytes` would refuse.
void require_sendable(const Message& message, std::size_t most_bytes);

/// One that waits to be sent: what it says is kept until then.
class OutMessage {
 public:
  explicit OutMessage(Message message);

  /// What is left, as at most `most` pieces.
  std::size_t pieces(std::span<iovec> to) const;
  /// So many bytes have been sent.
  void advance(std::size_t bytes);
  std::size_t left() const { return left_; }

 private:
  Message message_;
  std::vector<std::byte> start_;
  std::size_t sent_ = 0;
  std::size_t left_ = 0;
};

/// Makes messages of bytes.
class MessageReader {
 public:
  explicit MessageReader(std::size_t most_bytes);

  /// The next bytes, however many. Throws NetworkError where they are of no message.
  void feed(std::span<const std::byte> bytes, std::vector<Message>& arrived);
  /// Reads what is there, up to a bound unless `all` is wanted. False: the other end has closed.
  /// Throws NetworkError where the connection fails, too.
  bool read(int socket, std::vector<Message>& arrived, bool all = false);

 private:
  enum class Stage : unsigned char { head, prefix, payload };

  void begin();
  void next_stage(std::vector<Message>& arrived);
  void take_head();
  void take_prefix();

  std::size_t most_bytes_;
  Stage stage_ = Stage::head;
  Message message_;
  std::vector<std::byte> prefix_;
  std::deque<std::span<std::byte>> open_;  ///< where the next bytes belong
  std::vector<std::byte> stock_;           ///< what is read from a socket
};

}  // namespace hymn::rpc::detail
