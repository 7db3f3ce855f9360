// Sends and receives, put together by who sends to whom.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "tools/trace/job.hpp"

namespace hymn::trace {

/// One side of the traffic between two ranks.
struct Traffic {
  std::size_t calls = 0;           ///< that the dump holds
  std::vector<const Entry*> open;  ///< those that have not completed, oldest first
  std::vector<const Entry*> all;
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
  /// A receive that has not completed, and the send that it got, which is longer than its buffer.
  struct Overflow {
    const Entry* send = nullptr;
    const Entry* recv = nullptr;
  };
  /// Nothing, too, where the dumps do not tell.
  std::optional<Overflow> overflow() const;
  /// An open call, and one of the other side that nothing fits either but for its tag.
  struct Apart {
    const Entry* send = nullptr;
    const Entry* recv = nullptr;
  };
  std::optional<Apart> apart_by_tag() const;
};

/// Pairs of which a call is recorded, by group, sender and receiver.
std::vector<Pair> find_pairs(const Job& job);

}  // namespace hymn::trace
