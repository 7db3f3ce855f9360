// One rank's part of each collective, given sight of everybody's call.
#pragma once

#include "collectives/algorithm.hpp"
#include "p2p/threads/thread_board.hpp"

namespace hymn {

/// The calls of all members, by group rank.
class PeerCalls {
 public:
  PeerCalls(const ThreadBoard::Visit& visit, int size) : visit_(visit), size_(size) {}
  int size() const { return size_; }
  const Request& request(int member) const { return *call(member).request; }
  int peer(int member) const { return call(member).peer; }
  std::uint64_t whole_label(int member) const { return call(member).whole_label; }

 private:
  const Call& call(int member) const { return *static_cast<const Call*>(visit_.shown_by(member)); }

  const ThreadBoard::Visit& visit_;
  int size_;
};

/// Whether the output of an all_to_all lies where its input does.
bool is_in_place(const Request& request);

/// Throws UsageError with both sides when another member's call does not fit this one: another
/// operation, dtype, count, reduction or root. Nothing may be read from others before this.
void check_agreement(const PeerCalls& peers, GroupShape shape, const Call& mine);

/// Reads from the others' buffers and writes this rank's share.
void inprocess_part(const PeerCalls& peers, GroupShape shape, const Call& mine);

}  // namespace hymn
