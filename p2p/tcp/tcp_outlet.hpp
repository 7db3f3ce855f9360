// What this rank says to another one of its own messages, and what has become of it.
//
// Short messages and what is said of long ones are kept until the other end has them, and said
// again over the next connection; the bytes of long ones are read where they are: the first ones at
// once, the rest when a receive wants them.
#pragma once

#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "p2p/tcp/tcp_frame.hpp"
#include "p2p/tcp/tcp_messages.hpp"
#include "p2p/tcp/tcp_part.hpp"
#include "p2p/tcp/tcp_socket.hpp"

namespace hymn::tcp {

using FinishSending = std::function<void(Sending&)>;

/// Called with the lock of its Net held, by its Link, which writes.
class Outlet {
 public:
  explicit Outlet(const FinishSending& finish) : finish_(finish) {}
  Outlet(const Outlet&) = delete;
  Outlet& operator=(const Outlet&) = delete;

  void start(Sending& message);
  /// False: it was a long one, of whose end the other end is to be told. Where it throws it is
  /// withdrawn, but this connection must not go on.
  bool withdraw(Sending& message);
  /// Of the long ones that were withdrawn. False: there is no memory for all, until it is done
  /// again.
  bool tell_withdrawn() noexcept;
  bool has_something_to_say() const { return !said_.empty() || !long_.empty(); }
  /// Of all that there is, and will be.
  void fail(std::exception_ptr error);
  bool has_failed() const { return error_ != nullptr; }

  void connected();
  void disconnected();
  bool wants_to_write() const {
    return !parts_.front().is_empty() || next_ != said_.size() || has_parts();
  }
  /// Of a long message, where there is nothing else.
  void begin_part_if_free();
  /// That no stream has taken.
  bool has_parts() const { return !ready_.empty(); }
  /// What is being written to a stream besides the main one. Until there is another stream.
  Part& part_of(std::size_t stream);
  /// The next part of a long message, if there is one: they go out in ascending order, by whatever
  /// stream can be written to.
  void hand_out(Part& part);
  /// Where that lies of which some has been written, and how many pieces it is.
  std::size_t gather_begun(std::span<iovec> pieces) const;
  std::size_t gather_new(std::span<iovec> pieces) const;
  /// What is left of the bytes that were written: they were not of this.
  std::size_t written_begun(std::size_t bytes);
  void written_new(std::size_t bytes);

  // What the other end has said.
  /// How many bytes of a long message it wants now.
  std::uint64_t granted(const Frame& frame);
  void finished(const Frame& frame);
  void acknowledged(const Frame& frame);

 private:
  /// Something numbered, until it has come.
  struct Said {
    std::uint64_t number;
    std::vector<std::byte> bytes;
    Sending* sending;  ///< a short message that is done when this is written
    /// What follows, of a long message.
    const Sending* ahead_of = nullptr;  ///< null: none, or the copy below
    std::span<const std::byte> ahead{};
    /// Filled when the message is done, or withdrawn, which must not want for memory.
    std::unique_ptr<std::byte[]> copy{};
    std::uint64_t asks_of = 0;  ///< the number of a long message; 0: it asks of none

    std::size_t size() const { return bytes.size() + ahead.size(); }
  };
  /// Until the other end wants nothing more of it.
  struct Long {
    Sending* message;    ///< null: it was withdrawn, and the other end is to be told
    bool begun = false;  ///< then: as that was
  };
  bool is_short(const Sending& message) const;
  std::uint64_t say(Frame frame, std::span<const std::byte> bytes, Sending* sending);
  void announce(Sending& message);
  static std::size_t gather_said(const Said& said, std::size_t offset, std::span<iovec> pieces);
  std::size_t written_frame(std::size_t bytes);
  void release(Sending& message);
  Said* find_said(std::uint64_t number);  ///< null: it has come
  void forget_said(std::uint64_t number);
  void forget_long(std::map<std::uint64_t, Long>::iterator one);

  const FinishSending& finish_;
  std::exception_ptr error_;  ///< once it has failed

  // What outlives a connection.
  std::uint64_t last_ = 0;  ///< number of a frame
  std::deque<Said> said_;
  std::uint64_t spent_ = 0;             ///< costs of what was sent unasked
  std::uint64_t consumed_ = 0;          ///< of which the other end has told that they were taken
  std::map<std::uint64_t, Long> long_;  ///< by number
  std::size_t untold_ = 0;              ///< how many of them were withdrawn
  bool was_connected_ = false;

  // Of this one.
  std::size_t next_ = 0;    ///< in said_: what is to be written
  std::size_t offset_ = 0;  ///< in that
  std::list<Sending*> ready_;
  std::vector<Part> parts_ = std::vector<Part>(1);  ///< by stream
};

}  // namespace hymn::tcp
