// One rank's connection to this one, by which its messages come: it has made it, and makes it again
// where it is lost. What was said before is remembered, so that nothing comes twice.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hymn/timeout.hpp"
#include "p2p/tcp/tcp_frame.hpp"
#include "p2p/tcp/tcp_mailbox.hpp"
#include "p2p/tcp/tcp_poller.hpp"

namespace hymn::tcp {

/// Who knows the groups.
class Sorter {
 public:
  virtual ~Sorter() = default;
  /// A message has begun to come: gives it to the mailbox of its group. False: it is nobody's.
  virtual bool sort(const std::shared_ptr<Incoming>& message) = 0;
};

/// Called with the lock of its Net held.
class Inlet {
 public:
  Inlet(int rank, Poller& poller, Sorter& sorter) : rank_(rank), poller_(poller), sorter_(sorter) {}
  Inlet(const Inlet&) = delete;
  Inlet& operator=(const Inlet&) = delete;

  /// Of the last connection.
  std::uint64_t turn() const { return turn_; }
  /// A new one, in place of what there was. `welcome` is said first.
  void adopt(Descriptor socket, std::uint64_t turn, std::span<const std::byte> welcome);
  /// `scratch`: where it may read to.
  void on_event(std::uint32_t events, std::span<std::byte> scratch);
  void want(Incoming& message);
  void settle(Incoming& message);

  /// Since when there is none any more; unset: there is one, or has never been one.
  const std::optional<TimePoint>& lost_since() const { return lost_since_; }
  const std::string& why_lost() const { return why_; }
  int socket() const { return socket_.number(); }
  void close() { socket_ = {}; }

 private:
  void read(std::span<std::byte> scratch);
  void parse(std::span<const std::byte> bytes);
  void begin(const Frame& frame);
  /// False: it has come before.
  bool is_next(const Frame& frame) const;
  void begin_message(const Frame& frame);
  void cancelled(const Frame& frame);
  void asked(const Frame& frame);
  void begin_data(const Frame& frame);
  void advance(std::size_t bytes);
  void end_payload();
  std::shared_ptr<Incoming> incoming_of(const Frame& frame);
  void finish_long(std::uint64_t number);
  /// It takes nothing of its sender's window any more.
  void give_back(Incoming& message);
  void say(const Frame& frame);
  void reply(const Frame& frame);
  void say_consumed();
  void acknowledge();
  void acknowledge_if_due();
  void flush();
  void lose(const std::string& why);

  const int rank_;
  Poller& poller_;
  Sorter& sorter_;
  Descriptor socket_;
  std::uint64_t turn_ = 0;
  std::optional<TimePoint> lost_since_;
  std::string why_;

  // What outlives a connection.
  std::uint64_t expected_ = 1;         ///< the next numbered frame
  std::uint64_t consumed_ = 0;         ///< costs of what came unasked, and was taken
  std::shared_ptr<Incoming> partial_;  ///< short, or an announcement, of which some has come
  Frame partial_frame_{};              ///< its frame
  std::map<std::uint64_t, std::shared_ptr<Incoming>> unfinished_;  ///< long ones, by number

  // Of this one.
  std::array<std::byte, head_bytes> head_{};
  std::size_t have_ = 0;               ///< of the head
  std::uint64_t left_ = 0;             ///< of the bytes behind it
  std::shared_ptr<Incoming> current_;  ///< whose these are; null: nobody's
  std::uint64_t told_ = 0;             ///< of expected_
  std::uint64_t told_consumed_ = 0;
  std::vector<std::byte> replies_;
  bool lacks_memory_ = false;
  bool wants_to_write_ = false;
  bool reading_ = false;
};

}  // namespace hymn::tcp
