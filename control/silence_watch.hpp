// Whether the host at the other end of a TCP connection is still there while something waits to be
// sent to it.
#pragma once

#include "base/private.hpp"
#include "hymn/timeout.hpp"

namespace hymn {

/// What TCP_USER_TIMEOUT is for, but that ends a connection also where the other host acknowledges
/// all it is asked and its process reads nothing: one that is stopped, or in a debugger. For one
/// socket, and one thread at a time.
class SilenceWatch {
 public:
  /// `limit`: several times as long as there is between two looks.
  explicit SilenceWatch(Duration limit) : limit_(limit) {}

  /// To be called every now and then. True: the kernel has sent something, or asked twice whether
  /// there is room, and has heard nothing since for the limit. False for what is no TCP socket.
  HYMN_PRIVATE bool is_silent(int socket, TimePoint now);

 private:
  Duration limit_;
  TimePoint since_{};  ///< of the first look after which nothing was heard
};

}  // namespace hymn
