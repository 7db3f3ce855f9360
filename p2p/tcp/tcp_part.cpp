#include "p2p/tcp/tcp_part.hpp"

#include <algorithm>

namespace hymn::tcp {

void Part::begin(Sending& message) {
  left_ = std::min<std::uint64_t>(message.bytes - message.sent, part_limit);
  head_ = head_of({.kind = FrameKind::data,
                   .number = message.number,
                   .value = message.sent,
                   .length = static_cast<std::uint32_t>(left_)});
  head_left_ = head_bytes;
  data_ = message.data + message.sent;
  sending_ = &message;
  message.sent += left_;
}

std::size_t Part::gather(std::span<iovec> pieces) const {
  std::size_t count = 0;
  if (head_left_ != 0)
    pieces[count++] = bytes_at(head_.data() + (head_bytes - head_left_), head_left_);
  if (left_ != 0) pieces[count++] = bytes_at(data_, left_);
  return count;
}

std::size_t Part::written(std::size_t bytes) {
  if (sending_ != nullptr && bytes != 0) sending_->begun = true;
  const std::size_t of_head = std::min(bytes, head_left_);
  const std::size_t of_data = std::min(bytes - of_head, left_);
  head_left_ -= of_head;
  data_ += of_data;
  left_ -= of_data;
  if (is_empty()) {
    sending_ = nullptr;
    copy_.clear();
  }
  return bytes - of_head - of_data;
}

void Part::release(const Sending& message) {
  if (sending_ != &message) return;
  if (!is_begun()) {
    *this = {};
    return;
  }
  copy_.assign(data_, data_ + left_);
  data_ = copy_.data();
  sending_ = nullptr;
}

}  // namespace hymn::tcp
