// Messages on their way: as who sends one sees it, who waits for one, and what has come of one.
// All of it is guarded by the lock of the Net, but for what is atomic.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
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
  std::uint64_t sent = 0;    ///< of a long one, or handed to a stream
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
  std::uint64_t come = 0;                           ///< all before this place has
  std::map<std::uint64_t, std::uint64_t> beyond{};  ///< parts that came before their turn: to where
  std::uint64_t reached = 0;                        ///< nothing from this place on has come
  std::uint64_t ahead = 0;                          ///< of a long one: comes with its announcement
  std::uint64_t charged = 0;                        ///< what it takes of its sender's window
  std::uint64_t number = 0;
  bool is_long = false;
  bool granted = false;                   ///< a long one, whose bytes have been asked for
  bool begun = false;                     ///< of which some have been sent then
  std::uint64_t place = 0;                ///< in the order in which they came
  std::unique_ptr<std::byte[]> parcel{};  ///< where what has come is while nobody has asked for it
  Receiving* receive = nullptr;           ///< who has
  Mailbox* box = nullptr;                 ///< whose it is; null: nobody's, it is dropped
  Link* link = nullptr;                   ///< by which it comes; null: it is all here

  bool is_whole() const { return come == bytes; }
  /// A long one, whose announcement has come to its end.
  bool is_announced() const { return come >= ahead; }
  /// Where its byte of that number goes; null: nowhere.
  std::byte* at(std::uint64_t index) const {
    if (parcel) return parcel.get() + index;
    return receive != nullptr ? receive->data + index : nullptr;
  }
  /// Of a part of it that begins there all before `end` has come; `whole`: that is all of the part.
  void arrive(std::uint64_t begin, std::uint64_t end, bool whole);
  /// What lies beyond `come` comes again.
  void forget_what_is_beyond();
};

}  // namespace hymn::tcp
