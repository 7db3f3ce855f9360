#include "control/silence_watch.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <chrono>

namespace hymn {

bool SilenceWatch::is_silent(int socket, TimePoint now) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  const bool is_known = ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0;
  // A host without room acknowledges what it drops: it was heard after that was sent last.
  const bool is_unheard =
      info.tcpi_unacked > 0 && info.tcpi_last_ack_recv > info.tcpi_last_data_sent;
  // One question whether there is room may be lost, and the next is asked up to two minutes later.
  const bool is_unanswered = is_known && (is_unheard || info.tcpi_probes > 1);
  if (!is_unanswered) {
    since_ = {};
    return false;
  }
  const TimePoint heard = now - std::chrono::milliseconds(info.tcpi_last_ack_recv);
  // An answer starts the time again, whatever is unanswered by now.
  if (since_ == TimePoint{} || heard > since_) since_ = now;
  return now - since_ >= limit_;
}

}  // namespace hymn
