// This rank's link to another one: at most one connection at a time, by which the messages of both
// go. It is made by whoever has something to say first, and again where it is lost. It may have
// more streams than the one that is meant here (Streams).
//
// Both may make one at once. Each connection has a number, its turn: one more than the last that
// its maker has made or heard of. Of two that were made at once both ranks keep the one with the
// higher turn, of equal ones that of the lower rank; what was said on the other is said again. So
// one that its maker knew of when it made another gives way to that; and a rank whose own can not
// be made, as by a firewall, takes the one that comes, whatever its turn:
//
// - A connection on which no hello has been said yet gives way to any that comes.
// - One on which it has, but which is not welcome yet, gives way to one that goes before it. The
//   other way round the one that comes waits, unread: until the own one is welcome, when it
//   is closed; or is lost, or is not welcome for another while, when the one that came is taken.
// - One that is welcome gives way to one with a higher turn: the peer has lost it. Others are left
//   from before it, and closed.
// - One that has been closed there before it is seen here displaces none on which a hello has been
//   said: the peer may have gone on with that. It waits, and its last words are heard afterwards;
//   unless it does not have a higher turn, and the own one is welcome.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "p2p/tcp/tcp_greeting.hpp"
#include "p2p/tcp/tcp_inlet.hpp"
#include "p2p/tcp/tcp_outlet.hpp"
#include "p2p/tcp/tcp_poller.hpp"
#include "p2p/tcp/tcp_reader.hpp"
#include "p2p/tcp/tcp_site.hpp"
#include "p2p/tcp/tcp_socket.hpp"
#include "p2p/tcp/tcp_streams.hpp"

namespace hymn::tcp {

/// Called with the lock of its Net held.
class Link final : Reader::Ear {
 public:
  Link(int rank, const LinkSite& site, Poller& poller, Sorter& sorter)
      : rank_(rank),
        site_(site),
        poller_(poller),
        outlet_(site.finish),
        inlet_(rank, *this, sorter),
        streams_(rank, site, poller, outlet_, inlet_) {}
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// Where the other one listens, and the nonce that it has given out.
  void introduce(const Address& address, const Nonce& nonce);
  bool is_introduced() const { return address_.has_value(); }
  /// It has connected, and proved itself. Throws NetworkError where its connection is not wanted.
  void meet(Descriptor socket, const Contact& contact);
  /// Whether it has ever connected to this rank, or said something.
  bool has_heard() const { return heard_turn_ != 0 || inlet_.has_begun(); }

  void start(Sending& message);
  /// Afterwards nobody reads its buffer. A short one, and one that goes ahead whole, is on its way
  /// all the same. False: a part of it is there, and no more comes.
  bool withdraw(Sending& message) noexcept;
  void want(Incoming& message);
  void settle(Incoming& message);
  /// `scratch`: where it may read to.
  void on_event(std::uint32_t events, std::span<std::byte> scratch);
  void on_event_of(std::uint64_t stream, std::uint32_t events, std::span<std::byte> scratch);

  /// Whether look_after() may have to do something.
  bool is_restless() const;
  /// Connects again, or gives up.
  void look_after(TimePoint now);
  /// The process there has ended: it makes no connection any more. What it has said last is heard.
  void note_dead(TimePoint now);
  bool is_dead() const { return dead_since_.has_value(); }
  /// There was a connection, and has been none for as long as patience lasts; or nobody is there.
  bool is_lost(TimePoint now) const;
  /// There is none, or has been none of late: what is lost now and then gets on when it is looked
  /// after often.
  bool is_troubled(TimePoint now) const;
  /// What that, or a message that does not get there, ends with.
  std::exception_ptr error() const;
  /// Why what is said does not get there or here, for people; empty: nothing is known to be wrong.
  std::string trouble(TimePoint now) const;
  /// Whether all that was said has reached the other host, as far as it can.
  bool is_drained() const;
  /// It is not made again, unless something is to be said.
  void close();
  /// In a child made by fork(), where nobody has the lock: its descriptors only.
  void close_in_child();
  bool is_up() const { return state_ == State::up; }
  // For tests.
  std::uint64_t streams() const { return streams_.count(); }
  /// As a network might.
  void cut(std::uint64_t stream = 0) const;

 private:
  enum class State : unsigned char { idle, connecting, up, lost };
  /// A connection of the peer's that waits for what becomes of this rank's own.
  struct Suitor {
    Descriptor socket;
    Contact contact;
    TimePoint since;
  };

  void say_something();
  void note_trouble(TimePoint now);
  void forget_trouble();
  void connect(TimePoint now);
  void end_connecting();
  bool goes_before_mine(const Contact& contact) const;
  void adopt(Descriptor socket, const Contact& contact);
  void join(Descriptor socket, const Contact& contact);
  void make_streams_for(std::uint64_t bytes);
  void lose_stream(std::string_view why);
  void begin(std::span<const std::byte> greeting);
  void be_welcome();
  void flush();
  void flush_main();
  std::size_t gather(std::span<iovec> pieces) const;
  void written(std::size_t bytes);
  void end_writing(const std::string& why);
  std::size_t head_size() const override { return is_welcome_ ? head_bytes : welcome_bytes; }
  void hear(std::span<const std::byte> head) override;
  void hear(const Frame& frame);
  bool wants_to_write() const;
  void watch();
  void end_connection();
  void lose(std::string_view why);
  bool has_tried_long(TimePoint now) const;
  void give_up();
  std::string without_connection(Duration time, std::string_view why) const;

  const int rank_;
  const LinkSite& site_;
  Poller& poller_;
  Outlet outlet_;
  Inlet inlet_;
  Streams streams_;
  std::optional<Address> address_;
  Contact contact_;  ///< of the last connection that was made here
  State state_ = State::idle;
  std::uint64_t turn_ = 0;        ///< the last that was made here, or heard of
  std::uint64_t heard_turn_ = 0;  ///< the peer's last
  std::optional<Suitor> suitor_;
  bool was_there_ = false;  ///< a connection that both had proved themselves on
  std::string why_;         ///< the last connection, or attempt, has failed
  bool lacks_descriptors_ = false;
  std::optional<TimePoint> trouble_since_;
  std::optional<TimePoint> dead_since_;
  TimePoint lost_at_{};  ///< the last time
  TimePoint began_{};
  TimePoint retry_at_{};
  Duration pause_{};
  int attempts_ = 0;  ///< since there was trouble

  // Of this connection.
  Descriptor socket_;
  bool is_mine_ = false;  ///< this rank has made it
  bool is_welcome_ = false;
  std::uint64_t most_streams_ = 1;  ///< that both want
  Reader reader_{inlet_, *this};
  std::uint32_t watched_ = 0;
  bool is_reading_ = false;
  std::string why_no_writing_;  ///< it is read to its end all the same; empty: it is written to
};

}  // namespace hymn::tcp
