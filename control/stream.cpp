#include "control/stream.hpp"

#include <fmt/format.h>

#include <asio/buffer.hpp>
#include <asio/post.hpp>
#include <asio/write.hpp>
#include <utility>

#include "base/helper_thread.hpp"
#include "hymn/error.hpp"

namespace hymn {

Stream::Stream(asio::ip::tcp::socket socket, std::size_t queue_limit)
    : socket_(std::move(socket)), patience_(socket_.get_executor()), queue_limit_(queue_limit) {}

void Stream::start(Events events) {
  set_events(std::move(events));
  queue(greeting());
  read();
}

// An event may end what it was called for: whoever calls one holds it for so long.
void Stream::set_events(Events events) {
  events_ = std::make_shared<const Events>(std::move(events));
}

bool Stream::send(std::span<const std::byte> payload) {
  if (!is_open() || finishing_) return false;
  const std::size_t waiting = queued_.size() + writing_.size();
  if (waiting + payload.size() > queue_limit_) {
    fail(fmt::format("it does not read: {} bytes are waiting to be sent, and the limit is {}",
                     waiting + payload.size(), queue_limit_));
    return false;
  }
  queue(frame(payload));
  return true;
}

void Stream::queue(std::span<const std::byte> bytes) {
  queued_.insert(queued_.end(), bytes.begin(), bytes.end());
  if (writing_.empty()) write();
}

void Stream::write() {
  std::swap(writing_, queued_);
  asio::async_write(socket_, asio::buffer(writing_),
                    [self = shared_from_this()](asio::error_code error, std::size_t) {
                      if (!self->is_open()) return;
                      if (error) return self->fail(error.message());
                      self->writing_.clear();
                      if (!self->queued_.empty())
                        self->write();
                      else if (self->finishing_)
                        self->end_sending();
                    });
}

void Stream::read() {
  socket_.async_read_some(asio::buffer(arrived_), [self = shared_from_this()](
                                                      asio::error_code error, std::size_t count) {
    if (!self->is_open()) return;
    if (error == asio::error::eof) return self->fail("the other end has closed it");
    if (error) return self->fail(error.message());
    // Nothing would be read any more after what is thrown here.
    run_guarded([&] { self->on_read(count); },
                [&](std::string_view why) {
                  self->fail(fmt::format("its message cannot be handled: {}", why));
                });
    if (self->is_open()) self->read();
  });
}

void Stream::on_read(std::size_t count) {
  if (finishing_) return;  // nobody listens any more
  reader_.feed(std::span(arrived_).first(count));
  while (is_open() && !finishing_) {
    std::optional<Bytes> frame;
    try {
      frame = reader_.next();
    } catch (const NetworkError& error) {
      return fail(error.problem());
    }
    if (!frame) return;
    const auto events = events_;
    events->frame(*frame);
  }
}

// The event comes later, never from within a call of the owner's.
void Stream::fail(const std::string& why) {
  const auto self = shared_from_this();
  const bool told = finishing_;
  asio::error_code ignored;
  socket_.close(ignored);
  patience_.cancel();
  if (told) return;
  asio::post(socket_.get_executor(), [self, why] {
    const auto events = std::exchange(self->events_, nullptr);
    if (events) events->closed(why);
  });
}

void Stream::close() {
  events_ = nullptr;
  asio::error_code ignored;
  socket_.close(ignored);
  patience_.cancel();
}

void Stream::finish(Duration limit) {
  if (!is_open() || finishing_) return close();
  events_ = nullptr;
  finishing_ = true;
  patience_.expires_after(limit);
  patience_.async_wait([self = shared_from_this()](asio::error_code error) {
    if (!error) self->close();
  });
  if (writing_.empty()) end_sending();
}

// Closing at once would throw away what is on its way as soon as anything from the peer arrives. So
// the reading goes on until the peer has seen our end and closes its own.
void Stream::end_sending() {
  asio::error_code error;
  socket_.shutdown(asio::socket_base::shutdown_send, error);
  if (error) close();
}

}  // namespace hymn
