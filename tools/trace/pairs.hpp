// Sends and receives, put together by who sends to whom.
#pragma once

#include <cstddef>
#include <vector>

#include "tools/trace/job.hpp"

namespace hymn::trace {

/// One side of the traffic between two ranks.
struct Traffic {
  std::size_t calls = 0;           ///< that the dump holds
  std::vector<const Entry*> open;  ///< those that have not completed, oldest first
  bool has_dump = false;
  bool is_whole = false;  ///< the ring has overwritten nothing: `calls` are all there were
};

struct Pair {
  const Group* group = nullptr;
  int sender = -1;    ///< global rank; -1: any
  int receiver = -1;  ///< global rank
  Traffic sends;
  Traffic recvs;
  std::size_t other_recvs = 0;  ///< open calls of the receiver that may take what is sent
  std::size_t other_sends = 0;  ///< open calls of the sender that may send what is waited for

  /// Whether the sender's open send has nobody who receives it.
  bool sender_waits() const;
  /// Whether the receiver's open receive has nobody who sends to it.
  bool receiver_waits() const;
  /// Whether both are there, and yet do not come together.
  bool both_wait() const { return !sends.open.empty() && !recvs.open.empty(); }
};

/// Pairs of which a call is recorded, by group, sender and receiver.
std::vector<Pair> find_pairs(const Job& job);

}  // namespace hymn::trace
