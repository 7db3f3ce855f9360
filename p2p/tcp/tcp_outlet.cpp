#include "p2p/tcp/tcp_outlet.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <set>
#include <utility>

#include "hymn/error.hpp"

namespace hymn::tcp {

bool Outlet::is_short(const Sending& message) const {
  return message.bytes <= eager_limit &&
         spent_ - consumed_ + eager_cost(message.bytes) <= eager_window;
}

void Outlet::start(Sending& message) {
  if (error_) {
    message.error = error_;
    return finish_(message);
  }
  if (!is_short(message)) return announce(message);
  spent_ += eager_cost(message.bytes);
  message.number = say({.kind = FrameKind::eager,
                        .group = message.group,
                        .tag = message.tag,
                        .length = static_cast<std::uint32_t>(message.bytes)},
                       {message.data, message.bytes}, &message);
}

// Its first bytes need no copy: it is done only when the other end has them.
void Outlet::announce(Sending& message) {
  const std::uint64_t ahead = bytes_ahead(message.bytes, spent_ - consumed_);
  auto copy = ahead == 0 ? nullptr : std::make_unique_for_overwrite<std::byte[]>(ahead);
  const auto place = long_.emplace(last_ + 1, Long{&message}).first;
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

bool Outlet::withdraw(Sending& message) {
  if (Said* const said = find_said(message.number); said && said->sending == &message)
    said->sending = nullptr;  // it goes on its way all the same
  const auto found = long_.find(message.number);
  if (found == long_.end() || found->second.message != &message) return true;
  found->second = {.message = nullptr, .begun = message.begun};
  ++untold_;
  release(message);
  return false;
}

bool Outlet::tell_withdrawn() noexcept {
  try {
    for (auto one = long_.begin(); untold_ != 0;) {
      const auto& [number, gone] = *one;
      if (gone.message == nullptr) {
        say({.kind = FrameKind::cancel, .tag = gone.begun ? 1u : 0u, .value = number}, {}, nullptr);
        forget_long(one++);
      } else {
        ++one;
      }
    }
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void Outlet::forget_long(std::map<std::uint64_t, Long>::iterator one) {
  if (one->second.message == nullptr) --untold_;
  long_.erase(one);
}

// What has been said is said to its end, and again where the connection is lost; and a part of
// which some has been written must be written to its end.
void Outlet::release(Sending& message) {
  if (Said* const said = find_said(message.number); said && said->ahead_of == &message) {
    std::memcpy(said->copy.get(), said->ahead.data(), said->ahead.size());
    said->ahead = {said->copy.get(), said->ahead.size()};
    said->ahead_of = nullptr;
  }
  ready_.remove(&message);
  for (Part& part : parts_) part.release(message);
}

void Outlet::fail(std::exception_ptr error) {
  error_ = std::move(error);
  const auto fail_one = [this](Sending& message) {
    message.error = error_;
    finish_(message);
  };
  for (const Said& said : said_)
    if (said.sending != nullptr) fail_one(*said.sending);
  for (const auto& [number, one] : long_)
    if (one.message != nullptr) fail_one(*one.message);
  said_.clear();
  long_.clear();
  untold_ = 0;
}

// --- Connections ---

// What was said of long messages may have been lost on the way here with the last one. What has
// been asked, and is not known to have come, is asked again as it is.
void Outlet::connected() {
  if (!std::exchange(was_connected_, true)) return;
  std::set<std::uint64_t> asked;
  for (const Said& said : said_) asked.insert(said.asks_of);
  for (const auto& [number, one] : long_) {
    if (one.message == nullptr || asked.contains(number)) continue;
    say({.kind = FrameKind::ask, .value = number}, {}, nullptr);
    said_.back().asks_of = number;
  }
}

void Outlet::disconnected() {
  next_ = 0;
  offset_ = 0;
  for (Part& part : parts_) part = {};
  ready_.clear();
  for (const auto& [number, one] : long_)
    if (one.message != nullptr) one.message->granted = false;
}

// --- Writing ---

void Outlet::begin_part_if_free() {
  if (next_ == said_.size()) hand_out(parts_.front());
}

Part& Outlet::part_of(std::size_t stream) {
  if (stream >= parts_.size()) parts_.resize(stream + 1);
  return parts_[stream];
}

// Long messages take turns.
void Outlet::hand_out(Part& part) {
  if (!part.is_empty() || ready_.empty()) return;
  Sending& message = *ready_.front();
  part.begin(message);
  if (message.sent == message.bytes)
    ready_.pop_front();
  else
    ready_.splice(ready_.end(), ready_, ready_.begin());
}

// A part is begun when all frames are written, so that it is one or the other.
std::size_t Outlet::gather_begun(std::span<iovec> pieces) const {
  if (parts_.front().is_begun()) return parts_.front().gather(pieces);
  return offset_ != 0 ? gather_said(said_[next_], offset_, pieces) : 0;
}

std::size_t Outlet::gather_new(std::span<iovec> pieces) const {
  std::size_t count = 0;
  std::size_t next = next_ + (offset_ != 0 ? 1 : 0);
  for (; next < said_.size() && count + 1 < pieces.size(); ++next)
    count += gather_said(said_[next], 0, pieces.subspan(count));
  const bool has_room = next == said_.size() && count + 1 < pieces.size();
  if (has_room && !parts_.front().is_begun()) count += parts_.front().gather(pieces.subspan(count));
  return count;
}

std::size_t Outlet::gather_said(const Said& said, std::size_t offset, std::span<iovec> pieces) {
  std::size_t count = 0;
  if (offset < said.bytes.size())
    pieces[count++] = bytes_at(said.bytes.data() + offset, said.bytes.size() - offset);
  const std::size_t of_ahead = std::max(offset, said.bytes.size()) - said.bytes.size();
  if (of_ahead < said.ahead.size())
    pieces[count++] = bytes_at(said.ahead.data() + of_ahead, said.ahead.size() - of_ahead);
  return count;
}

std::size_t Outlet::written_begun(std::size_t bytes) {
  if (parts_.front().is_begun()) return parts_.front().written(bytes);
  return offset_ != 0 ? written_frame(bytes) : bytes;
}

void Outlet::written_new(std::size_t bytes) {
  while (bytes != 0)
    bytes = next_ != said_.size() ? written_frame(bytes) : parts_.front().written(bytes);
}

std::size_t Outlet::written_frame(std::size_t bytes) {
  Said& said = said_[next_];
  const std::size_t taken = std::min(bytes, said.size() - offset_);
  offset_ += taken;
  if (offset_ != said.size()) return 0;
  ++next_;
  offset_ = 0;
  if (said.sending != nullptr) finish_(*std::exchange(said.sending, nullptr));
  return bytes - taken;
}

// --- What the other end says ---

std::uint64_t Outlet::granted(const Frame& frame) {
  const auto found = long_.find(frame.number);
  if (found == long_.end() || found->second.message == nullptr) return 0;
  Sending& message = *found->second.message;
  if (message.granted) return 0;
  if (frame.value > message.bytes) throw NetworkError("more is wanted of a message than it has");
  message.granted = true;
  message.sent = frame.value;
  if (message.sent != message.bytes) ready_.push_back(&message);
  return message.bytes - message.sent;
}

void Outlet::finished(const Frame& frame) {
  const auto found = long_.find(frame.number);
  if (found == long_.end()) return;
  Sending* const message = found->second.message;
  forget_said(frame.number);
  if (message != nullptr) release(*message);
  forget_long(found);
  if (message != nullptr) finish_(*message);
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
    if (said_.front().sending != nullptr) finish_(*said_.front().sending);
    said_.pop_front();
    if (next_ > 0) --next_;
  }
}

}  // namespace hymn::tcp
