// This rank's connection to another one, by which its messages go there: made when the first is
// sent, and again where it is lost while there is still something to say.
//
// Short messages and what is said of long ones are kept until the other end has them; the bytes of
// long ones are read where they are: the first ones at once, the rest when a receive wants them.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hymn/timeout.hpp"
#include "p2p/tcp/tcp_frame.hpp"
#include "p2p/tcp/tcp_greeting.hpp"
#include "p2p/tcp/tcp_messages.hpp"
#include "p2p/tcp/tcp_poller.hpp"
#include "p2p/tcp/tcp_socket.hpp"

namespace hymn::tcp {

struct Limits {
  Duration handshake = std::chrono::seconds(5);   ///< for a stranger to prove itself
  Duration connecting = std::chrono::seconds(3);  ///< for one attempt
  /// Without a connection before what waits for one fails. Longer than the control plane takes to
  /// say who is dead.
  Duration patience = std::chrono::seconds(15);
};

/// What all outlets of a rank share.
struct OutletSite {
  int rank = -1;
  Token token{};
  Limits limits{};
  /// Told of each message that is done.
  std::function<void(Sending&)> finish{};
};

/// Called with the lock of its Net held.
class Outlet {
 public:
  Outlet(int rank, const OutletSite& site, Poller& poller)
      : rank_(rank), site_(site), poller_(poller) {}
  Outlet(const Outlet&) = delete;
  Outlet& operator=(const Outlet&) = delete;

  /// Where the other one listens, and the nonce that it has given out.
  void introduce(const Address& address, const Nonce& nonce);
  bool is_introduced() const { return address_.has_value(); }

  void start(Sending& message);
  /// Afterwards nobody reads its buffer. A short one, and one that goes ahead whole, is on its way
  /// all the same. False: a part of it is there, and no more comes.
  bool withdraw(Sending& message) noexcept;
  void on_event(std::uint32_t events, std::span<std::byte> scratch);

  /// Whether look_after() may have to do something.
  bool is_restless() const;
  /// Connects again, or gives up.
  void look_after(TimePoint now);
  /// Why what is to be said does not get there, for people; empty: nothing is known to be wrong.
  std::string trouble(TimePoint now) const;
  /// Whether all that was said has reached the other host, as far as it can.
  bool is_drained() const;
  int socket() const { return socket_.number(); }
  /// It is not made again, unless something is to be said.
  void close() {
    socket_ = {};
    state_ = State::idle;
  }

 private:
  enum class State : unsigned char { idle, connecting, up, lost, failed };
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

    std::size_t size() const { return bytes.size() + ahead.size(); }
  };
  /// A part of a long message that is being written.
  struct Part {
    Sending* sending = nullptr;  ///< null: it was withdrawn
    Head head{};
    std::size_t head_left = 0;
    const std::byte* data = nullptr;
    std::size_t left = 0;
    std::uint64_t bytes = 0;
    std::vector<std::byte> copy{};

    bool is_empty() const { return head_left == 0 && left == 0; }
  };

  bool is_short(const Sending& message) const;
  std::uint64_t say(Frame frame, std::span<const std::byte> bytes, Sending* sending);
  void announce(Sending& message);
  void say_something();
  void note_trouble(TimePoint now);
  void forget_trouble();
  void connect(TimePoint now);
  void end_connecting();
  void ask_again();
  void flush();
  std::size_t gather(std::span<iovec> parts) const;
  void written(std::size_t bytes);
  static std::size_t gather_said(const Said& said, std::size_t offset, std::span<iovec> parts);
  void end_frame();
  void begin_part();
  void end_part();
  void release(Sending& message);
  Said* find_said(std::uint64_t number);  ///< null: it has come
  void forget_said(std::uint64_t number);
  void read(std::span<std::byte> scratch);
  void parse(std::span<const std::byte> bytes);
  void hear(const Frame& frame);
  void granted(const Frame& frame);
  void finished(const Frame& frame);
  void acknowledged(const Frame& frame);
  void watch();
  void lose(const std::string& why);
  std::string without_connection(Duration time, std::string_view why) const;
  void fail();
  bool has_something_to_say() const { return !said_.empty() || !long_.empty(); }
  bool wants_to_write() const;

  const int rank_;
  const OutletSite& site_;
  Poller& poller_;
  std::optional<Address> address_;
  Contact contact_;
  State state_ = State::idle;
  Descriptor socket_;
  std::exception_ptr error_;  ///< once it has failed
  std::string why_;           ///< the last connection, or attempt, has failed
  bool lacks_descriptors_ = false;
  std::optional<TimePoint> trouble_since_;
  TimePoint began_{};
  TimePoint retry_at_{};
  Duration pause_{};
  int attempts_ = 0;  ///< since there was trouble

  // What outlives a connection.
  std::uint64_t last_ = 0;  ///< number of a frame
  std::deque<Said> said_;
  std::uint64_t spent_ = 0;     ///< costs of what was sent unasked
  std::uint64_t consumed_ = 0;  ///< of which the other end has told that they were taken
  std::map<std::uint64_t, Sending*> long_;  ///< by number

  // Of this one.
  Hello hello_{};
  std::size_t hello_left_ = 0;
  std::size_t next_ = 0;    ///< in said_: what is to be written
  std::size_t offset_ = 0;  ///< in that
  std::list<Sending*> ready_;
  Part part_;
  std::array<std::byte, head_bytes> heard_{};
  std::size_t have_ = 0;
  bool is_welcome_ = false;
  std::uint32_t watched_ = 0;
};

}  // namespace hymn::tcp
