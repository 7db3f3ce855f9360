#include "p2p/tcp/tcp_outlet.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "hymn/error.hpp"

namespace hymn::tcp {
namespace {

constexpr std::size_t most_written_at_once = std::size_t{4} << 20;
constexpr std::size_t most_frames = 16;

iovec bytes_at(const std::byte* data, std::size_t bytes) {
  return {const_cast<std::byte*>(data), bytes};
}

}  // namespace

void Outlet::introduce(const Address& address, const Nonce& nonce) {
  address_ = address;
  contact_ = {.from = site_.rank, .to = rank_, .nonce_of_listener = nonce};
}

bool Outlet::is_short(const Sending& message) const {
  return message.bytes <= eager_limit &&
         spent_ - consumed_ + eager_cost(message.bytes) <= eager_window;
}

void Outlet::start(Sending& message) {
  if (error_) {
    message.error = error_;
    return site_.finish(message);
  }
  // One that was lost while nobody wanted it counts from now on.
  if (state_ == State::lost && !has_something_to_say())
    note_trouble(std::chrono::steady_clock::now());
  Frame frame{.group = message.group, .tag = message.tag};
  if (is_short(message)) {
    spent_ += eager_cost(message.bytes);
    frame.kind = FrameKind::eager;
    frame.length = static_cast<std::uint32_t>(message.bytes);
    message.number = say(frame, {message.data, message.bytes}, &message);
  } else {
    announce(message);
  }
  say_something();
}

// Its first bytes need no copy: it is done only when the other end has them.
void Outlet::announce(Sending& message) {
  const std::uint64_t ahead = bytes_ahead(message.bytes, spent_ - consumed_);
  auto copy = ahead == 0 ? nullptr : std::make_unique_for_overwrite<std::byte[]>(ahead);
  const auto place = long_.emplace(last_ + 1, &message).first;
  try {
    message.number = say({.kind = FrameKind::announce,
                          .group = message.group,
                          .tag = message.tag,
                          .value = message.bytes,
                          .length = static_cast<std::uint32_t>(ahead)},
                         {}, nullptr);
  } catch (...) {
    long_.erase(place);
    throw;
  }
  if (ahead == 0) return;
  spent_ += eager_cost(ahead);
  Said& said = said_.back();
  said.ahead_of = &message;
  said.ahead = {message.data, ahead};
  said.copy = std::move(copy);
}

std::uint64_t Outlet::say(Frame frame, std::span<const std::byte> bytes, Sending* sending) {
  frame.number = last_ + 1;
  const Head head = head_of(frame);
  std::vector<std::byte> all(head.size() + bytes.size());
  std::copy(head.begin(), head.end(), all.begin());
  if (!bytes.empty()) std::memcpy(all.data() + head.size(), bytes.data(), bytes.size());
  said_.push_back({.number = frame.number, .bytes = std::move(all), .sending = sending});
  return ++last_;
}

// They are numbered one after the other.
Outlet::Said* Outlet::find_said(std::uint64_t number) {
  if (said_.empty() || number < said_.front().number || number > said_.back().number)
    return nullptr;
  return &said_[number - said_.front().number];
}

void Outlet::say_something() {
  if (state_ == State::idle) connect(std::chrono::steady_clock::now());
  if (state_ == State::up) flush();
}

bool Outlet::withdraw(Sending& message) noexcept {
  if (Said* const said = find_said(message.number); said && said->sending == &message)
    said->sending = nullptr;  // it goes on its way all the same
  const auto found = long_.find(message.number);
  if (found == long_.end() || found->second != &message) return true;
  long_.erase(found);
  try {
    release(message);
    say({.kind = FrameKind::cancel, .value = message.number}, {}, nullptr);
    say_something();
  } catch (...) {
    lose("no memory");  // and the next connection does not know of it
  }
  return !message.begun;
}

// What has been said is said to its end, and again where the connection is lost; and a part of
// which some has been written must be written to its end.
void Outlet::release(Sending& message) {
  if (Said* const said = find_said(message.number); said && said->ahead_of == &message) {
    std::ranges::copy(said->ahead, said->copy.get());
    said->ahead = {said->copy.get(), said->ahead.size()};
    said->ahead_of = nullptr;
  }
  ready_.remove(&message);
  if (part_.sending != &message) return;
  part_.copy.assign(part_.data, part_.data + part_.left);
  part_.data = part_.copy.data();
  part_.sending = nullptr;
}

// --- Writing ---

// In this order: the hello, a part that has been begun, what is numbered.
std::size_t Outlet::gather(std::span<iovec> parts) const {
  std::size_t count = 0;
  if (hello_left_ != 0)
    parts[count++] = bytes_at(hello_.data() + (hello_.size() - hello_left_), hello_left_);
  if (part_.head_left != 0)
    parts[count++] = bytes_at(part_.head.data() + (head_bytes - part_.head_left), part_.head_left);
  if (part_.left != 0) parts[count++] = bytes_at(part_.data, part_.left);
  std::size_t offset = offset_;
  for (std::size_t i = next_; i < said_.size() && count + 1 < parts.size(); ++i) {
    count += gather_said(said_[i], offset, parts.subspan(count));
    offset = 0;
  }
  return count;
}

std::size_t Outlet::gather_said(const Said& said, std::size_t offset, std::span<iovec> parts) {
  std::size_t count = 0;
  if (offset < said.bytes.size())
    parts[count++] = bytes_at(said.bytes.data() + offset, said.bytes.size() - offset);
  const std::size_t of_ahead = std::max(offset, said.bytes.size()) - said.bytes.size();
  if (of_ahead < said.ahead.size())
    parts[count++] = bytes_at(said.ahead.data() + of_ahead, said.ahead.size() - of_ahead);
  return count;
}

void Outlet::flush() {
  std::array<iovec, most_frames> parts;
  for (std::size_t moved = 0; moved < most_written_at_once && state_ == State::up;) {
    if (part_.is_empty() && next_ == said_.size() && !ready_.empty()) begin_part();
    const std::size_t count = gather(parts);
    if (count == 0) break;
    const Moved put = write_some(socket_.number(), std::span(parts).first(count));
    if (put.over) return lose(put.problem);
    if (put.bytes == 0) break;
    written(put.bytes);
    moved += put.bytes;
  }
  watch();
}

void Outlet::written(std::size_t bytes) {
  const auto take = [&bytes](std::size_t& left) {
    const std::size_t taken = std::min(bytes, left);
    left -= taken;
    bytes -= taken;
    return taken;
  };
  take(hello_left_);
  if (!part_.is_empty()) {
    take(part_.head_left);
    part_.data += take(part_.left);
    if (part_.is_empty()) end_part();
  }
  while (bytes != 0) {
    std::size_t left = said_[next_].size() - offset_;
    offset_ += take(left);
    if (left != 0) return;
    end_frame();
  }
}

void Outlet::end_frame() {
  Said& said = said_[next_];
  ++next_;
  offset_ = 0;
  if (said.sending != nullptr) site_.finish(*std::exchange(said.sending, nullptr));
}

void Outlet::begin_part() {
  Sending& message = *ready_.front();
  message.begun = true;
  part_.sending = &message;
  part_.bytes = std::min<std::uint64_t>(message.bytes - message.sent, part_limit);
  part_.head = head_of({.kind = FrameKind::data,
                        .number = message.number,
                        .value = message.sent,
                        .length = static_cast<std::uint32_t>(part_.bytes)});
  part_.head_left = head_bytes;
  part_.data = message.data + message.sent;
  part_.left = part_.bytes;
}

// Long messages take turns.
void Outlet::end_part() {
  Sending* const message = std::exchange(part_.sending, nullptr);
  part_.copy.clear();
  if (message == nullptr) return;
  message->sent += part_.bytes;
  ready_.remove(message);
  if (message->sent != message->bytes) ready_.push_back(message);
}

bool Outlet::wants_to_write() const {
  return hello_left_ != 0 || !part_.is_empty() || next_ != said_.size() || !ready_.empty();
}

void Outlet::watch() {
  if (!socket_) return;
  const bool writes = state_ == State::connecting || wants_to_write();
  const std::uint32_t wanted = writes ? EPOLLIN | EPOLLOUT : EPOLLIN;
  if (wanted == watched_) return;
  watched_ = wanted;
  poller_.change(socket_.number(), Owner::outlet, static_cast<std::uint32_t>(rank_), wanted);
}

// --- Reading ---

void Outlet::on_event(std::uint32_t events, std::span<std::byte> scratch) {
  if (state_ == State::connecting) end_connecting();
  if (state_ == State::up && (events & ~std::uint32_t{EPOLLOUT}) != 0) {
    try {
      read(scratch);
    } catch (const Error& error) {
      lose(error.what());
    } catch (const std::bad_alloc&) {
      lose("no memory for what was to be said");
    }
  }
  if (state_ == State::up) flush();
}

void Outlet::read(std::span<std::byte> scratch) {
  while (state_ == State::up) {
    const std::array parts{bytes_at(scratch.data(), scratch.size())};
    const Moved got = read_some(socket_.number(), parts);
    if (got.over) return lose(got.problem);
    if (got.bytes == 0) return;
    parse(scratch.first(got.bytes));
    if (got.bytes < scratch.size()) return;
  }
}

void Outlet::parse(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t wanted = is_welcome_ ? head_bytes : welcome_bytes;
    const std::size_t count = std::min(wanted - have_, bytes.size());
    std::copy_n(bytes.begin(), count, heard_.begin() + static_cast<std::ptrdiff_t>(have_));
    have_ += count;
    bytes = bytes.subspan(count);
    if (have_ < wanted) return;
    have_ = 0;
    if (is_welcome_) {
      hear(read_head(heard_));
    } else {
      check_welcome(std::span(heard_).first<welcome_bytes>(), site_.token, contact_);
      is_welcome_ = true;
      trouble_since_.reset();
      attempts_ = 0;
      pause_ = {};
    }
  }
}

void Outlet::hear(const Frame& frame) {
  switch (frame.kind) {
    case FrameKind::grant:
      return granted(frame);
    case FrameKind::finished:
      return finished(frame);
    case FrameKind::ack:
      return acknowledged(frame);
    case FrameKind::eager:
    case FrameKind::announce:
    case FrameKind::cancel:
    case FrameKind::ask:
    case FrameKind::data:
      break;
  }
  throw NetworkError("who receives messages has said what only who sends them says");
}

void Outlet::granted(const Frame& frame) {
  const auto found = long_.find(frame.number);
  if (found == long_.end() || found->second->granted) return;
  Sending& message = *found->second;
  if (frame.value > message.bytes) throw NetworkError("more is wanted of a message than it has");
  message.granted = true;
  message.sent = frame.value;
  if (message.sent != message.bytes) ready_.push_back(&message);
}

void Outlet::finished(const Frame& frame) {
  const auto found = long_.find(frame.number);
  if (found == long_.end()) return;
  Sending& message = *found->second;
  forget_said(frame.number);
  release(message);
  long_.erase(found);
  site_.finish(message);
}

void Outlet::acknowledged(const Frame& frame) {
  if (frame.number > last_ || frame.value > spent_)
    throw NetworkError("more has come than was sent");
  consumed_ = std::max(consumed_, frame.value);
  forget_said(frame.number);
}

// That and all before it have come; one that is being said again is said to its end.
void Outlet::forget_said(std::uint64_t number) {
  while (!said_.empty() && said_.front().number <= number && (next_ > 0 || offset_ == 0)) {
    if (said_.front().sending != nullptr) site_.finish(*said_.front().sending);
    said_.pop_front();
    if (next_ > 0) --next_;
  }
}

}  // namespace hymn::tcp
