// What the host tells a kernel that works with peers: their staging buffers, and what to do. A
// staging buffer is memory of a rank's GPU that the GPUs of all its peers reach: words by which
// they tell each other how far they are, two slots for data, which are used in turn.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hymn::cuda {

inline constexpr unsigned most_peers = 16;         ///< ranks of a team
inline constexpr unsigned most_peer_blocks = 128;  ///< of a kernel that all ranks run
/// What kernels that all ranks run are compiled for: so many blocks fit beside each other.
inline constexpr int peer_blocks_of_multiprocessor = 2;
/// Of one rank: so many groups have kernels on its GPU at the same time. A block that found no room
/// would be waited for.
inline constexpr int peer_groups_at_once = 4;

/// How far a block has come in its kernel.
enum class PeerPhase : unsigned { staged, folded };
inline constexpr unsigned peer_phases = 2;

/// At the beginning of each staging buffer; all zero at first.
struct StagingHead {
  /// The number of the last kernel in which the same block of a peer has come to a phase: a word
  /// for each peer, which it alone writes.
  std::uint32_t reached[peer_phases][most_peer_blocks][most_peers];

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
/// Of a staging buffer whose slots have so many bytes, a multiple of staging_alignment.
constexpr std::size_t staging_bytes(std::size_t slot_bytes) {
  return staging_data + 2 * slot_bytes;
}

/// Why a kernel has given up. Not crossed: what it was to work with has not come whole from other
/// hosts.
enum class PeerFailure : std::uint32_t { none, aborted, timed_out, not_crossed };

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
  std::uint32_t rank;
  std::uint32_t size;
  const std::uint32_t* aborted;  ///< not 0: all kernels end
  std::uint32_t* status;         ///< a PeerFailure, and in the second byte whom it was about
};

/// One call, or a piece of one; no larger than a slot, but for an all_reduce in two shots. Buffers
/// may have any alignment; where they have 16 bytes they are read and written by 16 bytes. They are
/// the same, or do not overlap.
struct PeerCall {
  const void* input;
  void* output;
  std::uint64_t bytes;         ///< of an all_reduce, broadcast or reduce; else of each rank's block
  std::uint64_t stride;        ///< from one rank's block to the next in the buffers
  std::uint32_t number;        ///< of the own rank, where peers are probed
  std::uint32_t root;          ///< of a broadcast, reduce, gather or scatter
  std::uint64_t limit;         ///< nanoseconds that may be waited; 0: for ever
  std::uint32_t checks_first;  ///< not 0: it comes behind what NCCL may have been made to give up
  std::uint32_t has_crossed;   ///< not 0: what it works with came from other hosts by NCCL
};

}  // namespace hymn::cuda
