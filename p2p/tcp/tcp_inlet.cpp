#include "p2p/tcp/tcp_inlet.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "hymn/error.hpp"
#include "p2p/tcp/tcp_socket.hpp"

namespace hymn::tcp {
namespace {

constexpr std::size_t most_read_at_once = std::size_t{1} << 20;
constexpr std::uint64_t frames_between_acks = 64;

iovec room_at(std::byte* data, std::size_t bytes) { return {data, bytes}; }

}  // namespace

void Inlet::adopt(Descriptor socket, std::uint64_t turn, std::span<const std::byte> welcome) {
  if (socket_) lose("another one has taken its place");
  turn_ = turn;
  if (!poller_.add(socket.number(), Owner::inlet, static_cast<std::uint32_t>(rank_), EPOLLIN))
    return lose("no memory for a connection");
  socket_ = std::move(socket);
  lost_since_.reset();
  replies_.assign(welcome.begin(), welcome.end());
  acknowledge();
  flush();
}

void Inlet::on_event(std::uint32_t events, std::span<std::byte> scratch) {
  if (!socket_) return;
  reading_ = true;
  try {
    if ((events & ~std::uint32_t{EPOLLOUT}) != 0) read(scratch);
  } catch (const Error& error) {
    lose(error.what());
  } catch (const std::bad_alloc&) {
    lose("no memory for what came");  // it is said again
  }
  reading_ = false;
  flush();
}

void Inlet::read(std::span<std::byte> scratch) {
  for (std::size_t moved = 0; moved < most_read_at_once && socket_;) {
    std::array<iovec, 2> parts;
    std::size_t count = 0;
    std::byte* const to = current_ ? current_->next() : nullptr;
    const std::size_t direct = left_ > 0 && to != nullptr ? left_ : 0;
    if (direct != 0) parts[count++] = room_at(to, direct);
    parts[count++] = room_at(scratch.data(), scratch.size());
    const Moved got = read_some(socket_.number(), std::span(parts).first(count));
    if (got.over) return lose(got.problem);
    if (got.bytes == 0) return;
    const std::size_t placed = std::min(got.bytes, direct);
    if (placed != 0) advance(placed);
    parse(scratch.first(got.bytes - placed));
    if (got.bytes < direct + scratch.size()) return;  // there is no more
    moved += got.bytes;
  }
}

void Inlet::parse(std::span<const std::byte> bytes) {
  while (!bytes.empty() && socket_) {
    if (left_ > 0) {
      const std::size_t count = std::min<std::uint64_t>(left_, bytes.size());
      if (std::byte* const to = current_ ? current_->next() : nullptr)
        std::memcpy(to, bytes.data(), count);
      advance(count);
      bytes = bytes.subspan(count);
      continue;
    }
    const std::size_t count = std::min(head_bytes - have_, bytes.size());
    std::copy_n(bytes.begin(), count, head_.begin() + static_cast<std::ptrdiff_t>(have_));
    have_ += count;
    bytes = bytes.subspan(count);
    if (have_ < head_bytes) return;
    have_ = 0;
    begin(read_head(head_));
  }
}

bool Inlet::is_next(const Frame& frame) const {
  if (frame.number > expected_) throw NetworkError("a frame is missing");
  if (frame.number < expected_) return false;
  // Said again, over another connection, a message is the same.
  if (partial_ && frame != partial_frame_)
    throw NetworkError("a frame is not the one that had begun to come");
  return true;
}

void Inlet::begin(const Frame& frame) {
  current_.reset();
  left_ = frame.length;
  switch (frame.kind) {
    case FrameKind::eager:
    case FrameKind::announce:
      if (is_next(frame)) begin_message(frame);
      return;
    case FrameKind::cancel:
      if (is_next(frame)) cancelled(frame);
      return;
    case FrameKind::ask:
      if (is_next(frame)) asked(frame);
      return;
    case FrameKind::data:
      return begin_data(frame);
    case FrameKind::grant:
    case FrameKind::finished:
    case FrameKind::ack:
      break;
  }
  throw NetworkError("who sends messages has said what only who receives them says");
}

std::shared_ptr<Incoming> Inlet::incoming_of(const Frame& frame) {
  auto message = std::make_shared<Incoming>();
  message->source = rank_;
  message->group = frame.group;
  message->tag = frame.tag;
  message->number = frame.number;
  message->is_long = frame.kind == FrameKind::announce;
  message->bytes = message->is_long ? frame.value : frame.length;
  message->ahead = message->is_long ? frame.length : 0;
  const bool is_charged = !message->is_long || message->ahead != 0;
  message->charged = is_charged ? eager_cost(frame.length) : 0;
  message->inlet = this;
  return message;
}

void Inlet::begin_message(const Frame& frame) {
  if (!partial_) {
    auto message = incoming_of(frame);
    if (message->ahead > message->bytes) throw NetworkError("more comes of a message than it has");
    if (message->is_long) unfinished_[frame.number] = message;
    if (!sorter_.sort(message)) settle(*message);
    partial_frame_ = frame;
    partial_ = std::move(message);
  }
  partial_->come = 0;
  current_ = partial_;
  if (left_ == 0) end_payload();
}

void Inlet::cancelled(const Frame& frame) {
  ++expected_;
  if (const auto found = unfinished_.find(frame.value); found != unfinished_.end()) {
    const auto message = std::move(found->second);
    unfinished_.erase(found);
    if (message->box != nullptr) message->box->cancel(message);
    give_back(*message);
  }
  acknowledge_if_due();
}

void Inlet::asked(const Frame& frame) {
  ++expected_;
  const auto found = unfinished_.find(frame.value);
  if (found == unfinished_.end())
    reply({.kind = FrameKind::finished, .number = frame.value});
  else if (found->second->granted)
    reply({.kind = FrameKind::grant, .number = frame.value, .value = found->second->come});
  acknowledge_if_due();
}

void Inlet::begin_data(const Frame& frame) {
  const auto found = unfinished_.find(frame.number);
  if (found == unfinished_.end()) return;  // nobody wants it any more
  const Incoming& message = *found->second;
  if (!message.granted || !message.is_announced() || frame.value != message.come ||
      frame.length > message.bytes - message.come)
    throw NetworkError("a part of a message is not the one that was to come");
  current_ = found->second;
}

void Inlet::advance(std::size_t bytes) {
  left_ -= bytes;
  if (current_) current_->come += bytes;
  if (left_ == 0 && current_) end_payload();
}

void Inlet::end_payload() {
  const std::shared_ptr<Incoming> message = std::move(current_);
  if (message == partial_) {
    partial_.reset();
    ++expected_;
  }
  const bool ends = message->is_whole() || message->box == nullptr;
  if (message->is_whole() && message->box != nullptr) message->box->complete(*message);
  if (message->is_long && ends) finish_long(message->number);
  acknowledge_if_due();
}

// What comes with its announcement need not be asked for, and takes no memory of hymn's any more.
void Inlet::want(Incoming& message) {
  message.granted = true;
  give_back(message);
  if (message.ahead != message.bytes)
    reply({.kind = FrameKind::grant, .number = message.number, .value = message.ahead});
}

// The sender must not be told that it is done with a message whose announcement still comes.
void Inlet::settle(Incoming& message) {
  give_back(message);
  if (message.is_long && message.is_announced()) finish_long(message.number);
}

void Inlet::give_back(Incoming& message) {
  consumed_ += std::exchange(message.charged, 0);
  acknowledge_if_due();
}

void Inlet::finish_long(std::uint64_t number) {
  if (unfinished_.erase(number) != 0) reply({.kind = FrameKind::finished, .number = number});
}

// --- What is said to the sender ---

// What it may send unasked it hears of by the way.
void Inlet::reply(const Frame& frame) {
  if (consumed_ != told_consumed_) say_consumed();
  say(frame);
  if (!reading_) flush();
}

// Called where nothing may be thrown, and in the midst of what has come.
void Inlet::say(const Frame& frame) {
  if (!socket_) return;  // it asks when it is back
  const Head head = head_of(frame);
  try {
    replies_.insert(replies_.end(), head.begin(), head.end());
  } catch (const std::bad_alloc&) {
    lacks_memory_ = true;
  }
}

void Inlet::say_consumed() {
  told_ = expected_;
  told_consumed_ = consumed_;
  say({.kind = FrameKind::ack, .number = expected_ - 1, .value = consumed_});
}

void Inlet::acknowledge() {
  say_consumed();
  if (!reading_) flush();
}

void Inlet::acknowledge_if_due() {
  if (expected_ - told_ >= frames_between_acks ||
      consumed_ - told_consumed_ >= eager_cost(eager_limit))
    acknowledge();
}

void Inlet::flush() {
  if (!socket_) return;
  if (lacks_memory_) return lose("no memory for what is to be said");
  while (!replies_.empty()) {
    const std::array parts{room_at(replies_.data(), replies_.size())};
    const Moved put = write_some(socket_.number(), parts);
    if (put.over) return lose(put.problem);
    if (put.bytes == 0) break;
    replies_.erase(replies_.begin(), replies_.begin() + static_cast<std::ptrdiff_t>(put.bytes));
  }
  if (wants_to_write_ == !replies_.empty()) return;
  wants_to_write_ = !replies_.empty();
  poller_.change(socket_.number(), Owner::inlet, static_cast<std::uint32_t>(rank_),
                 wants_to_write_ ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

// A part of a long message goes on where it ended; a short one comes anew.
void Inlet::lose(const std::string& why) {
  if (socket_) poller_.remove(socket_.number());
  socket_ = {};
  lost_since_ = std::chrono::steady_clock::now();
  why_ = why;
  have_ = 0;
  left_ = 0;
  current_.reset();
  replies_.clear();
  lacks_memory_ = false;
  wants_to_write_ = false;
}

}  // namespace hymn::tcp
