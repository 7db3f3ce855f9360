// The connection to one other worker: a socket, or, on one host, streams in shared memory, beside
// which the socket wakes who sleeps and shows the end.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/descriptor.hpp"
#include "control/silence_watch.hpp"
#include "hymn/timeout.hpp"
#include "p2p/shm/byte_streams.hpp"
#include "rpc/message.hpp"

namespace hymn::rpc::detail {

inline constexpr Duration longest_silence = std::chrono::seconds(10);

struct LinkLimits {
  std::size_t most_bytes = 0;  ///< in a message
  /// Where as much waits to be sent, calls and results are refused; and where as much has come to
  /// wait behind it of what nobody refuses, the link is given up.
  std::size_t most_queued = 0;
};

/// Anybody sends; what is not taken at once is sent when it can be, by who runs the poll. Only one
/// thread at a time reads.
class Link {
 public:
  /// `poll`: an epoll, which tells of this socket with `tag`. `stream`: null where there is none.
  Link(Descriptor socket, int poll, std::uint64_t tag, const LinkLimits& limits,
       ByteStream* stream);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  bool has_stream() const { return stream_ != nullptr; }

  /// Does not wait. False: it is closed, or given up.
  bool send(Message message);
  /// More may be taken. Does not wait for who writes.
  void flush();
  /// What the stream brings, up to a bound; flushes. Throws as MessageReader::feed().
  void look_at_stream(std::vector<Message>& arrived);
  /// The socket has something to say. As MessageReader::read().
  bool read(std::vector<Message>& arrived, bool all = false);

  std::size_t queued_bytes() const { return queued_bytes_.load(std::memory_order_relaxed); }
  bool is_open() const { return is_open_.load(std::memory_order_relaxed); }

  /// For who reads, every now and then: the other host has acknowledged nothing for long.
  bool is_silent(TimePoint now) { return is_open() && silence_.is_silent(socket_.number(), now); }

  /// Why this end has given it up; empty: it has not. For who reads, when it has ended.
  std::string why_given_up() const;

  /// No more is read or sent.
  void close();
  /// In a child made by fork(), which holds its copy of the socket open; nobody uses it there.
  void close_in_child() { const Descriptor closed = std::move(socket_); }
  /// Waits until all is sent, or the deadline has passed, or it is closed.
  void drain(TimePoint deadline);

 private:
  bool put(Message message);
  /// `done`: gets what has been sent, which must not go while the lock is held: what belongs to a
  /// message may send others when it goes.
  void write_some(std::vector<OutMessage>& done);
  /// Some of it; 0: no more is taken now, and somebody will tell when it is.
  std::size_t write(const OutMessage& message);
  std::size_t write_to_socket(std::span<iovec> pieces);
  std::size_t write_to_stream(std::span<const iovec> pieces);
  void take_from_stream(std::vector<Message>& arrived);
  bool hear_wake_ups(std::string& failure);
  void watch(bool writable);
  bool is_unread_for_long(const OutMessage& out, bool is_refusable);
  void wake_other();

  Descriptor socket_;
  int poll_;
  std::uint64_t tag_;
  ByteStream* stream_;
  MessageReader reader_;
  SilenceWatch silence_{longest_silence};
  std::atomic<bool> is_open_{true};
  std::atomic<std::size_t> queued_bytes_{0};
  std::atomic<bool> is_flush_due_{false};
  const std::size_t most_queued_;
  mutable std::mutex mutex_;  // of what follows, and of writing
  std::deque<OutMessage> queue_;
  bool is_watched_ = false;    ///< for room to write
  std::size_t unrefused_ = 0;  ///< bytes that have been queued behind too much
  std::string why_given_up_;
};

}  // namespace hymn::rpc::detail
