#include "p2p/tcp/tcp_link.hpp"

#include <algorithm>
#include <new>

#include "hymn/error.hpp"

namespace hymn::tcp {
namespace {

// Where both write much at once what is under way stays in the caches if they look soon for what
// has come.
constexpr std::size_t most_written_at_once = std::size_t{512} << 10;
constexpr std::size_t most_pieces = 16;
static_assert(welcome_bytes <= head_bytes, "a reader has room for a head");

/// Raised while it lives.
class Raised {
 public:
  explicit Raised(bool& flag) : flag_(flag) { flag_ = true; }
  ~Raised() { flag_ = false; }
  Raised(const Raised&) = delete;
  Raised& operator=(const Raised&) = delete;

 private:
  bool& flag_;
};

}  // namespace

void Link::start(Sending& message) {
  // One that was lost while nobody wanted it counts from now on.
  const bool is_away = state_ == State::lost || state_ == State::idle;
  const bool was_wanted = outlet_.has_something_to_say() || outlet_.has_failed();
  if (is_away && trouble_since_ && !was_wanted) note_trouble(std::chrono::steady_clock::now());
  outlet_.start(message);
  say_something();
}

void Link::say_something() {
  if (state_ == State::idle && address_ && outlet_.has_something_to_say())
    connect(std::chrono::steady_clock::now());
  flush();
}

bool Link::withdraw(Sending& message) noexcept {
  try {
    if (outlet_.withdraw(message)) return true;
    say_something();
  } catch (...) {
    lose("no memory");  // by the next connection the peer is told of it
  }
  return !message.begun;
}

void Link::want(Incoming& message) {
  inlet_.want(message);
  flush();
}

void Link::settle(Incoming& message) {
  inlet_.settle(message);
  flush();
}

void Link::on_event(std::uint32_t events, std::span<std::byte> scratch) {
  try {
    const Raised reading(is_reading_);
    if (state_ == State::connecting) {
      end_connecting();
    } else if (state_ == State::up && (events & ~std::uint32_t{EPOLLOUT}) != 0) {
      const Moved got = reader_.read(socket_.number(), scratch);
      if (got.over) lose(why_no_writing_.empty() ? got.problem : why_no_writing_);
    }
  } catch (const Error& error) {
    lose(error.what());
  } catch (const std::bad_alloc&) {
    lose("no memory for what came");  // it is said again
  }
  flush();
}

void Link::on_event_of(std::uint64_t stream, std::uint32_t events, std::span<std::byte> scratch) {
  try {
    const Raised reading(is_reading_);
    streams_.on_event(stream, events, scratch);
  } catch (const Error& error) {
    lose_stream(error.what());
  } catch (const std::bad_alloc&) {
    lose_stream("no memory for what came");
  }
  flush();
}

// --- Writing ---

// What has been begun is written to its end; what is said of the peer's messages goes before this
// rank's. Not in the midst of what has come: there may be more to say of it.
void Link::flush() {
  if (state_ != State::up || is_reading_) return;
  flush_main();
  if (state_ == State::up && why_no_writing_.empty()) streams_.watch();
}

void Link::flush_main() {
  if (!outlet_.tell_withdrawn() || inlet_.lacks_memory())
    return lose("no memory for what is to be said");
  if (outlet_.wants_to_write()) inlet_.acknowledge_by_the_way();
  std::array<iovec, most_pieces> pieces;
  for (std::size_t moved = 0; moved < most_written_at_once && why_no_writing_.empty();) {
    if (inlet_.replies().empty()) outlet_.begin_part_if_free();
    const std::size_t count = gather(pieces);
    if (count == 0) break;
    const Moved put = write_some(socket_.number(), std::span(pieces).first(count));
    if (put.over) return end_writing(put.problem);
    if (put.bytes == 0) break;
    written(put.bytes);
    moved += put.bytes;
  }
  watch();
}

std::size_t Link::gather(std::span<iovec> pieces) const {
  std::size_t count = outlet_.gather_begun(pieces);
  if (const auto replies = inlet_.replies(); !replies.empty())
    pieces[count++] = bytes_at(replies.data(), replies.size());
  return count + outlet_.gather_new(pieces.subspan(count));
}

void Link::written(std::size_t bytes) {
  bytes = outlet_.written_begun(bytes);
  bytes = inlet_.replied(bytes);
  outlet_.written_new(bytes);
}

// The peer may have closed it after its last words, which are here and are not read yet.
void Link::end_writing(const std::string& why) {
  why_no_writing_ = why;
  ::shutdown(socket_.number(), SHUT_RDWR);  // so that its end is seen, whatever has gone wrong
}

bool Link::wants_to_write() const { return !inlet_.replies().empty() || outlet_.wants_to_write(); }

void Link::watch() {
  if (!socket_) return;
  const bool writes = state_ == State::connecting || (why_no_writing_.empty() && wants_to_write());
  const std::uint32_t wanted = writes ? EPOLLIN | EPOLLOUT : EPOLLIN;
  if (wanted == watched_) return;
  watched_ = wanted;
  poller_.change(socket_.number(), Owner::link, static_cast<std::uint32_t>(rank_), wanted);
}

// --- Reading ---

void Link::hear(std::span<const std::byte> head) {
  if (is_welcome_) return hear(read_head(head.first<head_bytes>()));
  const auto theirs = read_welcome(head.first<welcome_bytes>(), site_.token, contact_);
  most_streams_ = std::min(theirs, site_.limits.streams);
  be_welcome();
}

void Link::hear(const Frame& frame) {
  switch (frame.kind) {
    case FrameKind::eager:
    case FrameKind::announce:
    case FrameKind::cancel:
    case FrameKind::ask:
      return inlet_.begin(frame, reader_.payload());
    case FrameKind::data:
      inlet_.begin(frame, reader_.payload());
      return make_streams_for(reader_.payload().rest());
    case FrameKind::grant:
      return make_streams_for(outlet_.granted(frame));
    case FrameKind::finished:
      return outlet_.finished(frame);
    case FrameKind::ack:
      return outlet_.acknowledged(frame);
  }
}

}  // namespace hymn::tcp
