// A part of a long message, with its head, on its way to a socket.
#pragma once

#include <span>
#include <vector>

#include "p2p/tcp/tcp_frame.hpp"
#include "p2p/tcp/tcp_messages.hpp"
#include "p2p/tcp/tcp_socket.hpp"

namespace hymn::tcp {

class Part {
 public:
  bool is_empty() const { return head_left_ == 0 && left_ == 0; }
  /// Some of it has been written: the rest must be, too.
  bool is_begun() const { return !is_empty() && head_left_ != head_bytes; }

  /// The next one of a message, of which it counts as sent.
  void begin(Sending& message);
  std::size_t gather(std::span<iovec> pieces) const;
  /// What is left of the bytes that were written: they were not of this.
  std::size_t written(std::size_t bytes);
  /// Nobody reads this message any more. Where it throws it is not released.
  void release(const Sending& message);

 private:
  Sending* sending_ = nullptr;  ///< null: it was withdrawn
  Head head_{};
  std::size_t head_left_ = 0;
  const std::byte* data_ = nullptr;
  std::size_t left_ = 0;
  std::vector<std::byte> copy_{};
};

}  // namespace hymn::tcp
