// The connection to one other worker.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <vector>

#include "base/descriptor.hpp"
#include "hymn/timeout.hpp"
#include "rpc/message.hpp"

namespace hymn::rpc::detail {

/// Anybody sends; what the socket does not take at once is sent when it can, by who runs the poll.
/// Only one thread at a time reads.
class Link {
 public:
  /// `poll`: an epoll, which tells of this socket with `tag`.
  Link(Descriptor socket, int poll, std::uint64_t tag, std::size_t most_bytes);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// Does not wait. False: it is closed.
  bool send(Message message);
  /// The socket takes more.
  void flush();
  /// As MessageReader::read().
  bool read(std::vector<Message>& arrived, bool all) {
    return reader_.read(socket_.number(), arrived, all);
  }

  std::size_t queued_bytes() const { return queued_bytes_.load(std::memory_order_relaxed); }
  bool is_open() const { return is_open_.load(std::memory_order_relaxed); }

  /// No more is read or sent.
  void close();
  /// Waits until all is sent, or the deadline has passed, or it is closed.
  void drain(TimePoint deadline);

 private:
  /// `done`: gets what has been sent, which must not go while the lock is held: what belongs to a
  /// message may send others when it goes.
  void write_some(std::vector<OutMessage>& done);
  void watch(bool writable);

  Descriptor socket_;
  int poll_;
  std::uint64_t tag_;
  MessageReader reader_;
  std::atomic<bool> is_open_{true};
  std::atomic<std::size_t> queued_bytes_{0};
  std::mutex mutex_;  // of what follows
  std::deque<OutMessage> queue_;
  bool is_watched_ = false;  ///< for room to write
};

}  // namespace hymn::rpc::detail
