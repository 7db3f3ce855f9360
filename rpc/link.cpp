#include "rpc/link.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "hymn/timeout.hpp"

namespace hymn::rpc::detail {

Link::Link(Descriptor socket, int poll, std::uint64_t tag, std::size_t most_bytes)
    : socket_(std::move(socket)), poll_(poll), tag_(tag), reader_(most_bytes) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag_;
  ::epoll_ctl(poll_, EPOLL_CTL_ADD, socket_.number(), &event);
}

bool Link::send(Message message) {
  OutMessage out(std::move(message));
  std::vector<OutMessage> done;
  const std::lock_guard lock(mutex_);
  if (!is_open()) return false;
  queued_bytes_ += out.left();
  queue_.push_back(std::move(out));
  if (queue_.size() == 1) write_some(done);
  return true;
}

void Link::flush() {
  std::vector<OutMessage> done;
  const std::lock_guard lock(mutex_);
  write_some(done);
}

void Link::write_some(std::vector<OutMessage>& done) {
  while (!queue_.empty() && is_open()) {
    OutMessage& first = queue_.front();
    std::array<iovec, 64> pieces{};
    msghdr header{};
    header.msg_iov = pieces.data();
    header.msg_iovlen = first.pieces(pieces);
    const ssize_t sent = ::sendmsg(socket_.number(), &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      // A broken connection is told by the one that reads.
      watch(errno == EAGAIN);
      return;
    }
    first.advance(static_cast<std::size_t>(sent));
    queued_bytes_ -= static_cast<std::size_t>(sent);
    if (first.left() > 0) continue;
    done.push_back(std::move(first));
    queue_.pop_front();
  }
  watch(false);
}

void Link::watch(bool writable) {
  if (is_watched_ == writable || !is_open()) return;
  is_watched_ = writable;
  epoll_event event{};
  event.events = writable ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.u64 = tag_;
  ::epoll_ctl(poll_, EPOLL_CTL_MOD, socket_.number(), &event);
}

void Link::close() {
  std::deque<OutMessage> dropped;  // goes without the lock
  const std::lock_guard lock(mutex_);
  if (!is_open_.exchange(false)) return;
  // The number stays taken until nobody can use it any more.
  ::epoll_ctl(poll_, EPOLL_CTL_DEL, socket_.number(), nullptr);
  ::shutdown(socket_.number(), SHUT_RDWR);
  dropped.swap(queue_);
  queued_bytes_ = 0;
}

void Link::drain(TimePoint deadline) {
  while (is_open() && queued_bytes() > 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return;
    pollfd waited{socket_.number(), POLLOUT, 0};
    ::poll(&waited, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 50)));
    flush();
  }
}

}  // namespace hymn::rpc::detail
