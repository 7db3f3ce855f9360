// What the host tells a kernel that works with peers: their staging buffers, and what to do. A
// staging buffer is memory of a rank's GPU that the GPUs of all its peers reach: words by which
// they tell each other how far they are, two slots for data, which are used in turn, and two boxes
// for the messages of each peer.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hymn::cuda {

inline constexpr unsigned most_peers = 16;         ///< ranks of a team
inline constexpr unsigned most_peer_blocks = 128;  ///< of a kernel that all ranks run
/// What kernels that all ranks run are compiled for: so many blocks fit beside each other.
inline constexpr int peer_blocks_of_multiprocessor = 2;
inline constexpr unsigned message_blocks = 8;  ///< for each line of messages, of any size

/// How far a block has come in its kernel.
enum class PeerPhase : unsigned { staged, folded };
inline constexpr unsigned peer_phases = 2;

/// What the owner of a staging buffer and one of its peers tell each other of their messages, by
/// block. Blocks count pieces, from the first message on. A box holds a piece, and each block has
/// its own part of all boxes.
struct MessageWords {
  // The peer alone writes these.
  std::uint32_t sent[message_blocks];      ///< pieces that it has put into boxes here
  std::uint32_t taken[message_blocks];     ///< of those that were put into its own
  std::uint64_t sizes[2][message_blocks];  ///< of the message whose first piece is in that box
  std::uint32_t refused;                   ///< not 0: it has been sent what it was not to receive

  // For kernels of the own rank alone: where the last message has ended.
  std::uint32_t sent_there[message_blocks];
  std::uint32_t taken_here[message_blocks];
};

/// At the beginning of each staging buffer; all zero at first.
struct StagingHead {
  /// The number of the last kernel in which the same block of a peer has come to a phase: a word
  /// for each peer, which it alone writes.
  std::uint32_t reached[peer_phases][most_peer_blocks][most_peers];
  /// The rank's factor of premul_sum, as bits of the accumulator, by slot.
  std::uint32_t factors[2][most_peer_blocks];
  MessageWords messages[most_peers];  ///< by peer

  std::uint32_t number;                  ///< by which the rank knows that others read this
  std::uint32_t visited_by[most_peers];  ///< the same of others, to be read back by them

  // For kernels of the own rank alone.
  std::uint32_t kernels;  ///< that have come to their end
  std::uint32_t blocks;   ///< of the kernel that runs, that have come to their end
  std::uint32_t failed;   ///< whether one has not: then none runs any more
  /// The least of `kernels` of all ranks that hold the same shares on other hosts, and its own:
  /// NCCL brings it with the shares. Ranks of all hosts run the same kernels, so where it is less
  /// than `kernels`, a share was not folded, or has not crossed.
  std::uint32_t crossed;
};

inline constexpr std::size_t staging_alignment = 256;
/// Where a staging buffer's slots begin.
inline constexpr std::size_t staging_data =
    (sizeof(StagingHead) + staging_alignment - 1) / staging_alignment * staging_alignment;
/// Of a staging buffer whose slots have so many bytes, a multiple of staging_alignment; with boxes
/// for messages of so many peers, which hold so many bytes each, a multiple of staging_alignment,
/// too.
constexpr std::size_t staging_bytes(std::size_t slot_bytes, std::size_t box_bytes = 0,
                                    std::size_t peers = 0) {
  return staging_data + 2 * slot_bytes + 2 * box_bytes * peers;
}

/// Why a kernel has given up. Not crossed: what it was to work with has not come whole from other
/// hosts. Wrong size: the peer has sent a message of another size than was to be received; refused:
/// the peer says so of what this rank has sent.
enum class PeerFailure : std::uint32_t {
  none,
  aborted,
  timed_out,
  not_crossed,
  wrong_size,
  refused
};

/// What has become of a rank's kernels, for its host.
struct PeerStatus {
  std::uint32_t why;      ///< a PeerFailure, and in the second byte whom it was about
  std::uint32_t sent[2];  ///< by the peer: bytes of a wrong size, the lower half first
};

/// What the kernel that tries whether peers are reached has found of one of them.
struct PeerProbe {
  std::uint32_t number;  ///< that its staging buffer holds
  std::uint32_t kept;    ///< what it holds of what was written there
};

/// A group as its kernels see it. The host writes `aborted`, the GPU `status`: words of pinned
/// memory that both reach.
struct PeerTeam {
  std::byte* staging_buffers[most_peers];  ///< by rank, at the addresses that this GPU has for them
  std::uint64_t slot_bytes;
  std::uint64_t box_bytes;
  std::uint32_t rank;
  std::uint32_t size;
  const std::uint32_t* aborted;  ///< not 0: all kernels end
  PeerStatus* status;
};

/// One call, or a piece of one; no larger than a slot, but for an all_reduce in two shots. Buffers
/// may have any alignment; where they have 16 bytes they are read and written by 16 bytes. They are
/// the same, or do not overlap.
struct PeerCall {
  const void* input;
  void* output;
  std::uint64_t bytes;         ///< of an all_reduce, broadcast or reduce; else of each rank's block
  std::uint64_t stride;        ///< from one rank's block to the next in the buffers
  std::uint32_t factor;        ///< of premul_sum, as bits of the accumulator
  std::uint32_t root;          ///< of a broadcast, reduce, gather or scatter
  std::uint64_t limit;         ///< nanoseconds that may be waited; 0: for ever
  std::uint32_t checks_first;  ///< not 0: it comes behind what NCCL may have been made to give up
  std::uint32_t has_crossed;   ///< not 0: what it works with came from other hosts by NCCL
};

inline constexpr unsigned most_messages = 64;  ///< of a kernel
inline constexpr unsigned most_lines = 2 * most_peers;

/// Messages that one kernel carries, in lines: to or from one peer, one after the other. Lines run
/// at the same time, as message_blocks blocks each.
struct MessagesCall {
  struct Line {
    std::uint16_t peer;
    std::uint16_t is_send;
    std::uint16_t first;  ///< of `messages`
    std::uint16_t end;    ///< behind its last one
  };
  struct Message {
    std::byte* data;  ///< of any alignment; only read where it is sent
    std::uint64_t bytes;
  };
  std::uint64_t limit;  ///< as PeerCall's
  Line lines[most_lines];
  Message messages[most_messages];
};

}  // namespace hymn::cuda
