#include "p2p/tcp/tcp_inlet.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "hymn/error.hpp"

namespace hymn::tcp {
namespace {

constexpr std::uint64_t frames_between_acks = 64;
constexpr std::uint64_t costs_between_acks = eager_cost(eager_limit);

}  // namespace

// --- Connections ---

void Inlet::connected(std::span<const std::byte> greeting) {
  replies_.assign(greeting.begin(), greeting.end());
  is_connected_ = true;
  acknowledge();
}

// A part of a long message goes on where it ended; a short one comes anew.
void Inlet::disconnected() {
  is_connected_ = false;
  for (const auto& [number, message] : unfinished_) message->forget_what_is_beyond();
  replies_.clear();
  lacks_memory_ = false;
}

// --- What comes ---

bool Inlet::is_next(const Frame& frame) const {
  if (frame.number > expected_) throw NetworkError("a frame is missing");
  if (frame.number < expected_) return false;
  // Said again, over another connection, a message is the same.
  if (partial_ && frame != partial_frame_)
    throw NetworkError("a frame is not the one that had begun to come");
  return true;
}

void Inlet::begin(const Frame& frame, Payload& payload) {
  payload = {.left = frame.length};
  switch (frame.kind) {
    case FrameKind::eager:
    case FrameKind::announce:
      if (is_next(frame)) begin_message(frame, payload);
      return;
    case FrameKind::cancel:
      if (is_next(frame)) cancelled(frame);
      return;
    case FrameKind::ask:
      return asked(frame, is_next(frame));
    case FrameKind::data:
      return begin_data(frame, payload);
    case FrameKind::grant:
    case FrameKind::finished:
    case FrameKind::ack:
      return;  // never: Link::hear() gives them to the outlet
  }
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
  message->link = &link_;
  return message;
}

void Inlet::begin_message(const Frame& frame, Payload& payload) {
  if (!partial_) {
    auto message = incoming_of(frame);
    if (message->ahead > message->bytes) throw NetworkError("more comes of a message than it has");
    if (message->is_long) unfinished_[frame.number] = message;
    if (!sorter_.sort(message)) settle(*message);
    partial_frame_ = frame;
    partial_ = std::move(message);
  }
  partial_->come = 0;
  payload.message = partial_;
  if (payload.left == 0) end_payload(payload);
}

void Inlet::cancelled(const Frame& frame) {
  ++expected_;
  if (const auto found = unfinished_.find(frame.value); found != unfinished_.end()) {
    const auto message = std::move(found->second);
    unfinished_.erase(found);
    message->begun = message->begun || frame.tag != 0;  // by another stream, which comes later
    if (message->box != nullptr) message->box->cancel(message);
    give_back(*message);
  }
  acknowledge_if_due();
}

// Also where it has come before: the answer may have been lost with the last connection.
void Inlet::asked(const Frame& frame, bool is_new) {
  if (is_new) ++expected_;
  const auto found = unfinished_.find(frame.value);
  if (found == unfinished_.end())
    reply({.kind = FrameKind::finished, .number = frame.value});
  else if (found->second->granted)
    reply({.kind = FrameKind::grant, .number = frame.value, .value = found->second->come});
  acknowledge_if_due();
}

// One that comes before its turn, as by another stream, is as long as parts are, so that there are
// not many of them.
void Inlet::begin_data(const Frame& frame, Payload& payload) {
  const auto found = unfinished_.find(frame.number);
  if (found == unfinished_.end()) return;  // nobody wants it any more
  Incoming& message = *found->second;
  const std::uint64_t rest = message.bytes - std::min(message.bytes, frame.value);
  const bool fits =
      frame.value == message.come
          ? frame.length <= rest
          : frame.value > message.come && frame.length == std::min<std::uint64_t>(rest, part_limit);
  // What comes with the announcement may come later than this, which another stream has brought.
  if (!message.granted || frame.value < message.ahead || !fits)
    throw NetworkError("a part of a message is not the one that was to come");
  message.begun = true;
  payload.message = found->second;
  payload.begin = payload.place = frame.value;
}

std::size_t Inlet::take(Payload& payload, std::span<const std::byte> bytes) {
  const std::size_t count = std::min<std::uint64_t>(payload.left, bytes.size());
  if (const auto to = payload.room(); !to.empty()) std::memcpy(to.data(), bytes.data(), count);
  advance(payload, count);
  return count;
}

void Inlet::advance(Payload& payload, std::size_t bytes) {
  payload.left -= bytes;
  payload.place += bytes;
  if (!payload.message) return;
  payload.message->arrive(payload.begin, payload.place, payload.left == 0);
  if (payload.left == 0) end_payload(payload);
}

void Inlet::end_payload(Payload& payload) {
  const std::shared_ptr<Incoming> message = std::move(payload.message);
  if (message == partial_) {
    partial_.reset();
    ++expected_;
  }
  const bool ends = message->is_whole() || (message->box == nullptr && message->is_announced());
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
  if (consumed_ != told_consumed_) acknowledge();
  say(frame);
}

// Called where nothing may be thrown, and in the midst of what has come.
void Inlet::say(const Frame& frame) {
  if (!is_connected_) return;  // it asks when it is back
  const Head head = head_of(frame);
  try {
    replies_.insert(replies_.end(), head.begin(), head.end());
  } catch (const std::bad_alloc&) {
    lacks_memory_ = true;
  }
}

std::size_t Inlet::replied(std::size_t bytes) {
  const std::size_t count = std::min(bytes, replies_.size());
  replies_.erase(replies_.begin(), replies_.begin() + static_cast<std::ptrdiff_t>(count));
  return bytes - count;
}

void Inlet::acknowledge() {
  told_ = expected_;
  told_consumed_ = consumed_;
  say({.kind = FrameKind::ack, .number = expected_ - 1, .value = consumed_});
}

void Inlet::acknowledge_if(std::uint64_t frames, std::uint64_t costs) {
  if (expected_ - told_ >= frames || consumed_ - told_consumed_ >= costs) acknowledge();
}

void Inlet::acknowledge_if_due() { acknowledge_if(frames_between_acks, costs_between_acks); }

// Before it is due, so that an exchange of messages needs no packets of its own for it.
void Inlet::acknowledge_by_the_way() {
  acknowledge_if(frames_between_acks / 2, costs_between_acks / 2);
}

}  // namespace hymn::tcp
