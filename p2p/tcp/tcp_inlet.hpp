// What comes from one rank: its messages, and what is said to it of them. What has come is
// remembered, so that nothing comes twice when it is said again over the next connection.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "p2p/tcp/tcp_frame.hpp"
#include "p2p/tcp/tcp_mailbox.hpp"
#include "p2p/tcp/tcp_payload.hpp"

namespace hymn::tcp {

/// Who knows the groups.
class Sorter {
 public:
  virtual ~Sorter() = default;
  /// A message has begun to come: gives it to the mailbox of its group. False: it is nobody's.
  virtual bool sort(const std::shared_ptr<Incoming>& message) = 0;
};

/// Called with the lock of its Net held, by its Link, which reads and writes.
class Inlet {
 public:
  Inlet(int rank, Link& link, Sorter& sorter) : rank_(rank), link_(link), sorter_(sorter) {}
  Inlet(const Inlet&) = delete;
  Inlet& operator=(const Inlet&) = delete;

  /// Whether anything of a message has ever come.
  bool has_begun() const { return expected_ > 1 || partial_; }
  void want(Incoming& message);
  void settle(Incoming& message);

  /// `greeting` is said first.
  void connected(std::span<const std::byte> greeting);
  void disconnected();

  /// A head has come: tells where what follows it belongs. Throws NetworkError for one that no
  /// right sender says.
  void begin(const Frame& frame, Payload& payload);
  /// So many bytes have been written there.
  void advance(Payload& payload, std::size_t bytes);
  /// How many of these belong to what follows a head.
  std::size_t take(Payload& payload, std::span<const std::byte> bytes);

  /// What is to be said to the sender.
  std::span<const std::byte> replies() const { return replies_; }
  /// Of so many written bytes: how many were not of them.
  std::size_t replied(std::size_t bytes);
  /// There is a frame by which to tell what has come.
  void acknowledge_by_the_way();
  bool lacks_memory() const { return lacks_memory_; }

 private:
  /// False: it has come before.
  bool is_next(const Frame& frame) const;
  void begin_message(const Frame& frame, Payload& payload);
  void cancelled(const Frame& frame);
  void asked(const Frame& frame, bool is_new);
  void begin_data(const Frame& frame, Payload& payload);
  void end_payload(Payload& payload);
  std::shared_ptr<Incoming> incoming_of(const Frame& frame);
  void finish_long(std::uint64_t number);
  /// It takes nothing of its sender's window any more.
  void give_back(Incoming& message);
  void say(const Frame& frame);
  void reply(const Frame& frame);
  void acknowledge();
  void acknowledge_if(std::uint64_t frames, std::uint64_t costs);
  void acknowledge_if_due();

  const int rank_;
  Link& link_;
  Sorter& sorter_;

  // What outlives a connection.
  std::uint64_t expected_ = 1;         ///< the next numbered frame
  std::uint64_t consumed_ = 0;         ///< costs of what came unasked, and was taken
  std::shared_ptr<Incoming> partial_;  ///< short, or an announcement, of which some has come
  Frame partial_frame_{};              ///< its frame
  std::map<std::uint64_t, std::shared_ptr<Incoming>> unfinished_;  ///< long ones, by number

  // Of this one.
  bool is_connected_ = false;
  std::uint64_t told_ = 0;  ///< of expected_
  std::uint64_t told_consumed_ = 0;
  std::vector<std::byte> replies_;
  bool lacks_memory_ = false;
};

}  // namespace hymn::tcp
