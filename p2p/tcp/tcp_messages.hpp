// Messages on their way: as who sends one sees it, who waits for one, and what has come of one.
// All of it is guarded by the lock of the Net, but for what is atomic.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>

namespace hymn::tcp {

/// A message on its way out. Stays where it is until it is done or withdrawn.
struct Sending {
  int to = -1;  ///< a rank of the world
  std::uint64_t group = 0;
  std::uint64_t tag = 0;
  const std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t number = 0;  ///< of the frame that tells of it
  std::uint64_t sent = 0;    ///< of a long one
  bool granted = false;      ///< a long one, over this connection
  bool begun = false;        ///< more of a long one has been sent than what goes ahead
  std::exception_ptr error{};
  std::atomic<bool> done{false};
};

/// A receive that waits for its message. Stays where it is until it is done or withdrawn.
struct Receiving {
  int from = -1;  ///< a rank of the world, or any_source
  std::uint64_t tag = 0;
  std::byte* data = nullptr;
  std::uint64_t room = 0;
  std::uint64_t place = 0;  ///< in the order in which they were posted
  int source = -1;          ///< of the message that matched
  std::uint64_t bytes = 0;  ///< its length; more than room: nothing was written
  std::exception_ptr error{};
  std::atomic<bool> done{false};
};

class Link;
class Mailbox;

/// A message that has come, or begun to.
struct Incoming {
  int source = -1;
  std::uint64_t group = 0;
  std::uint64_t tag = 0;
  std::uint64_t bytes = 0;
  std::uint64_t come = 0;
  std::uint64_t ahead = 0;    ///< of a long one: comes with its announcement
  std::uint64_t charged = 0;  ///< what it takes of its sender's window
  std::uint64_t number = 0;
  bool is_long = false;
  bool granted = false;                   ///< a long one, whose bytes have been asked for
  std::uint64_t place = 0;                ///< in the order in which they came
  std::unique_ptr<std::byte[]> parcel{};  ///< where what has come is while nobody has asked for it
  Receiving* receive = nullptr;           ///< who has
  Mailbox* box = nullptr;                 ///< whose it is; null: nobody's, it is dropped
  Link* link = nullptr;                   ///< by which it comes; null: it is all here

  bool is_whole() const { return come == bytes; }
  /// A long one, whose announcement has come to its end.
  bool is_announced() const { return come >= ahead; }
  /// Where its next byte goes; null: nowhere.
  std::byte* next() const {
    if (parcel) return parcel.get() + come;
    return receive != nullptr ? receive->data + come : nullptr;
  }
};

}  // namespace hymn::tcp
