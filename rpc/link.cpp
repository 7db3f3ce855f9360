#include "rpc/link.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "hymn/error.hpp"
#include "hymn/timeout.hpp"

namespace hymn::rpc::detail {
namespace {

/// Who writes has room again after so many bytes.
constexpr std::size_t most_passed = std::size_t{32} << 10;
/// Reads in a row of what only wakes.
constexpr int most_hearings = 8;

bool can_be_refused(MessageKind kind) {
  return kind == MessageKind::request || kind == MessageKind::fetch || kind == MessageKind::made ||
         kind == MessageKind::response;
}

}  // namespace

Link::Link(Descriptor socket, int poll, std::uint64_t tag, const LinkLimits& limits,
           ByteStream* stream)
    : socket_(std::move(socket)),
      poll_(poll),
      tag_(tag),
      stream_(stream),
      reader_(limits.most_bytes),
      most_queued_(limits.most_queued) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag_;
  ::epoll_ctl(poll_, EPOLL_CTL_ADD, socket_.number(), &event);
}

bool Link::send(Message message) {
  const bool is_sent = put(std::move(message));
  if (is_flush_due_) flush();
  return is_sent;
}

bool Link::put(Message message) {
  const bool is_refusable = can_be_refused(message.head.kind);
  OutMessage out(std::move(message));
  std::vector<OutMessage> done;
  const std::lock_guard lock(mutex_);
  if (!is_open() || !why_given_up_.empty()) return false;
  if (is_unread_for_long(out, is_refusable)) {
    why_given_up_ = fmt::format(
        "it reads nothing, and {} bytes wait to be sent to it, of which {} are answers and the "
        "like",
        queued_bytes(), unrefused_);
    // Who reads sees the end, and ends the rest.
    ::shutdown(socket_.number(), SHUT_RDWR);
    return false;
  }
  queued_bytes_ += out.left();
  queue_.push_back(std::move(out));
  if (queue_.size() == 1) write_some(done);
  return true;
}

/// Calls and results are refused before that; what answers them otherwise, and news of references,
/// are small, but there may be as many as the other worker wants.
bool Link::is_unread_for_long(const OutMessage& out, bool is_refusable) {
  if (queued_bytes() <= most_queued_)
    unrefused_ = 0;
  else if (!is_refusable)
    unrefused_ += out.left();
  return unrefused_ > most_queued_;
}

std::string Link::why_given_up() const {
  const std::lock_guard lock(mutex_);
  return why_given_up_;
}

// Who holds the lock may have found no room just before there was some, which is told once: so it
// looks when it has let go.
void Link::flush() {
  is_flush_due_ = true;
  while (is_flush_due_) {
    std::vector<OutMessage> done;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return;
    is_flush_due_ = false;
    write_some(done);
  }
}

void Link::write_some(std::vector<OutMessage>& done) {
  while (!queue_.empty() && is_open()) {
    OutMessage& first = queue_.front();
    const std::size_t sent = write(first);
    if (sent == 0) return;
    first.advance(sent);
    queued_bytes_ -= sent;
    if (first.left() > 0) continue;
    done.push_back(std::move(first));
    queue_.pop_front();
  }
  if (stream_ != nullptr)
    stream_->want_no_room();
  else
    watch(false);
}

std::size_t Link::write(const OutMessage& message) {
  std::array<iovec, 64> pieces{};
  const std::span<iovec> some = std::span(pieces).first(message.pieces(pieces));
  return stream_ != nullptr ? write_to_stream(some) : write_to_socket(some);
}

std::size_t Link::write_to_socket(std::span<iovec> pieces) {
  msghdr header{};
  header.msg_iov = pieces.data();
  header.msg_iovlen = pieces.size();
  for (;;) {
    const ssize_t sent = ::sendmsg(socket_.number(), &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) return static_cast<std::size_t>(sent);
    if (sent < 0 && errno == EINTR) continue;
    // A broken connection is told by the one that reads.
    watch(sent < 0 && errno == EAGAIN);
    return 0;
  }
}

std::size_t Link::write_to_stream(std::span<const iovec> pieces) {
  std::size_t written = stream_->write(pieces);
  // Once more, and no more often, whatever the other end does to its counters.
  if (written == 0 && stream_->want_room()) written = stream_->write(pieces);
  if (written > 0 && stream_->must_wake()) wake_other();
  return written;
}

/// Where it takes no more, there are bytes that it has not read, which wake it as well.
void Link::wake_other() {
  const std::byte one{1};
  (void)!::send(socket_.number(), &one, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Link::look_at_stream(std::vector<Message>& arrived) {
  if (!is_open()) return;
  if (stream_->has_wanted_room()) flush();
  take_from_stream(arrived);
}

/// No more than was there when it began, or little more: who is read from may go on writing.
void Link::take_from_stream(std::vector<Message>& arrived) {
  for (std::size_t left = stream_->capacity(); left > 0;) {
    const std::span<const std::byte> come = stream_->come();
    if (come.empty()) return;
    const auto piece = come.first(std::min({come.size(), most_passed, left}));
    reader_.feed(piece, arrived);
    stream_->pass(piece.size());
    if (stream_->must_wake_for_room()) wake_other();
    left -= piece.size();
  }
}

bool Link::read(std::vector<Message>& arrived, bool all) {
  if (stream_ == nullptr) return reader_.read(socket_.number(), arrived, all);
  std::string failure;
  const bool goes_on = hear_wake_ups(failure);
  // What was written before the end comes first.
  take_from_stream(arrived);
  if (!failure.empty()) throw NetworkError(failure);
  return goes_on;
}

/// False: the other end has closed, or `failure` has come.
bool Link::hear_wake_ups(std::string& failure) {
  std::array<std::byte, 256> bytes{};
  for (int turn = 0; turn < most_hearings; ++turn) {
    const ssize_t got = ::recv(socket_.number(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got == 0) return false;
    // Less than there was room for was all; an end behind it is told by the next poll.
    if (got > 0 && got < static_cast<ssize_t>(bytes.size())) return true;
    if (got > 0 || errno == EINTR) continue;
    if (errno != EAGAIN) failure = std::strerror(errno);
    return errno == EAGAIN;
  }
  return true;
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
  if (stream_ != nullptr) stream_->close();
  dropped.swap(queue_);
  queued_bytes_ = 0;
}

void Link::drain(TimePoint deadline) {
  while (is_open() && queued_bytes() > 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return;
    pollfd waited{socket_.number(), POLLOUT, 0};
    if (stream_ != nullptr)
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    else
      ::poll(&waited, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 50)));
    flush();
  }
}

}  // namespace hymn::rpc::detail
