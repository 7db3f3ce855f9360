// How messages get from one rank to another, piece by piece, block by block.
//
// The sender puts pieces into two boxes in the receiver's staging buffer, in turn. It counts them:
// with a release store of the count into the receiver's staging buffer it tells that a piece is
// there, and the receiver in the same way that it has taken it, after which the box may be written
// again. Both count by themselves from the first message on: without tags the n-th that is sent is
// the n-th that is received. Nothing is ever set back. Every message has one piece at least, and
// all blocks carry as many pieces of it, perhaps empty ones.
#pragma once

#include "collectives/cuda/pack.hpp"
#include "collectives/cuda/peer_wait.hpp"

namespace hymn::cuda {

/// One direction between this rank and a peer, as one thread sees it; all of a block call the same.
class PeerLink {
 public:
  HYMN_KERNEL_BODY PeerLink(const KernelThread& at, const PeerTeam& team, const PeerWait& wait,
                            const MessagesCall::Line& line)
      : at_{at.thread, at.threads},
        block_(at.block % message_blocks),
        team_(team),
        wait_(wait),
        peer_(line.peer),
        is_send_(line.is_send != 0),
        pieces_(count()) {}

  /// Returns when all of it is in the boxes. False: it was given up, and the peer does not get all.
  HYMN_KERNEL_BODY bool send(const MessagesCall::Message& message) {
    MessageWords& own = words(team_.rank, peer_);
    MessageWords& theirs = words(peer_, team_.rank);
    if (at_.any(load_acquire_system(&own.refused) != 0))
      return wait_.give_up(PeerFailure::refused, peer_);
    const std::uint64_t rounds = rounds_of(message.bytes);
    for (std::uint64_t round = 0; round < rounds; ++round) {
      ++pieces_;
      if (!wait_for(&own.taken[block_], pieces_ - 2, &own.refused)) return false;
      const Share share = share_of(round, message.bytes);
      copy(part_of_box(peer_, team_.rank), message.data + share.offset, share.bytes);
      if (round == 0 && at_.thread == 0) theirs.sizes[pieces_ % 2][block_] = message.bytes;
      at_.sync();
      if (round + 1 == rounds && at_.any(at_.thread == 0 && wait_.is_aborted()))
        return wait_.give_up(PeerFailure::aborted, peer_);
      if (at_.thread == 0) store_release_system(&theirs.sent[block_], pieces_);
    }
    return true;
  }

  HYMN_KERNEL_BODY bool receive(const MessagesCall::Message& message) {
    const MessageWords& own = words(team_.rank, peer_);
    const std::uint64_t rounds = rounds_of(message.bytes);
    for (std::uint64_t round = 0; round < rounds; ++round) {
      ++pieces_;
      if (!wait_for(&own.sent[block_], pieces_)) return false;
      const std::uint64_t sent = own.sizes[pieces_ % 2][block_];
      if (round == 0 && sent != message.bytes) return refuse(sent);
      const Share share = share_of(round, message.bytes);
      copy(message.data + share.offset, part_of_box(team_.rank, peer_), share.bytes);
      at_.sync();
      if (at_.thread == 0) store_release_system(&words(peer_, team_.rank).taken[block_], pieces_);
    }
    return true;
  }

  /// After the last message: the next kernel goes on from here.
  HYMN_KERNEL_BODY void finish() {
    if (at_.thread == 0) count() = pieces_;
  }

 private:
  /// Of a message, what this block carries of one round.
  struct Share {
    std::uint64_t offset;
    std::uint64_t bytes;
  };

  HYMN_KERNEL_BODY MessageWords& words(unsigned where, unsigned peer) const {
    return staging_head(team_, where).messages[peer];
  }
  HYMN_KERNEL_BODY std::uint32_t& count() const {
    MessageWords& own = words(team_.rank, peer_);
    return is_send_ ? own.sent_there[block_] : own.taken_here[block_];
  }
  /// In the box that holds the piece.
  HYMN_KERNEL_BODY std::byte* part_of_box(unsigned where, unsigned sender) const {
    const std::uint64_t box = 2 * sender + pieces_ % 2;
    return team_.staging_buffers[where] + staging_data + 2 * team_.slot_bytes +
           box * team_.box_bytes + block_ * (team_.box_bytes / message_blocks);
  }

  HYMN_KERNEL_BODY std::uint64_t rounds_of(std::uint64_t bytes) const {
    return bytes == 0 ? 1 : (bytes + team_.box_bytes - 1) / team_.box_bytes;
  }
  /// In each round a box is shared evenly, by packs.
  HYMN_KERNEL_BODY Share share_of(std::uint64_t round, std::uint64_t bytes) const {
    const std::uint64_t begin = round * team_.box_bytes;
    const std::uint64_t all = least(bytes - begin, team_.box_bytes);
    const std::uint64_t each = (packs_in(all) + message_blocks - 1) / message_blocks * pack_bytes;
    const std::uint64_t offset = least(block_ * each, all);
    return {begin + offset, least(all - offset, each)};
  }
  HYMN_KERNEL_BODY static std::uint64_t least(std::uint64_t a, std::uint64_t b) {
    return a < b ? a : b;
  }
  HYMN_KERNEL_BODY void copy(std::byte* to, const std::byte* from, std::uint64_t bytes) const {
    copy_packs(at_, to, from, 0, packs_in(bytes), bytes);
  }

  HYMN_KERNEL_BODY bool wait_for(const std::uint32_t* word, std::uint32_t number,
                                 const std::uint32_t* refused = nullptr) const {
    const bool has_come = at_.thread != 0 || wait_.until(word, number, peer_, refused);
    return !at_.any(!has_come);
  }

  HYMN_KERNEL_BODY bool refuse(std::uint64_t sent) const {
    if (at_.thread != 0) return false;
    store_release_system(&words(peer_, team_.rank).refused, 1);
    store_release_system(&team_.status->sent[0], static_cast<std::uint32_t>(sent));
    store_release_system(&team_.status->sent[1], static_cast<std::uint32_t>(sent >> 32));
    return wait_.give_up(PeerFailure::wrong_size, peer_);
  }

  const KernelThread at_;  // as if its block were the only one
  const unsigned block_;
  const PeerTeam& team_;
  const PeerWait& wait_;
  const unsigned peer_;
  const bool is_send_;
  std::uint32_t pieces_;
};

}  // namespace hymn::cuda
