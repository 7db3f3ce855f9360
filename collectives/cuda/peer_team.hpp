// What the host tells a kernel that works with peers: their windows, and one call. A window is
// memory of a rank's GPU that the GPUs of all its peers reach: words by which they tell each other
// how far they are, and two slots for data, which are used in turn.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hymn::cuda {

inline constexpr unsigned most_peers = 16;        ///< ranks of a team
inline constexpr unsigned most_peer_blocks = 32;  ///< of a kernel

/// How far a block has come in its kernel.
enum class PeerPhase : unsigned { staged, folded };
inline constexpr unsigned peer_phases = 2;

/// At the beginning of each window; all zero at first.
struct WindowHead {
  /// The number of the last kernel in which the same block of a peer has come to a phase: a word
  /// for each peer, which it alone writes.
  std::uint32_t reached[peer_phases][most_peer_blocks][most_peers];
  /// The rank's factor of premul_sum, as bits of the accumulator, by slot.
  std::uint32_t factors[2][most_peer_blocks];

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

inline constexpr std::size_t window_alignment = 256;
/// Where a window's slots begin.
inline constexpr std::size_t window_data =
    (sizeof(WindowHead) + window_alignment - 1) / window_alignment * window_alignment;
/// Of a window whose slots have so many bytes, a multiple of window_alignment.
constexpr std::size_t window_bytes(std::size_t slot_bytes) { return window_data + 2 * slot_bytes; }

/// Why a kernel has given up. In the first byte of PeerTeam::status; the rank that it waited for is
/// in the second. Not crossed: what it was to work with has not come whole from other hosts.
enum class PeerFailure : std::uint32_t { none, aborted, timed_out, not_crossed };

/// What the kernel that tries whether peers are reached has found of one of them.
struct PeerProbe {
  std::uint32_t number;  ///< that its window holds
  std::uint32_t kept;    ///< what it holds of what was written there
};

/// A group as its kernels see it. The host writes `aborted`, the GPU `status`: words of pinned
/// memory that both reach.
struct PeerTeam {
  std::byte* windows[most_peers];  ///< by rank, at the addresses that this GPU has for them
  std::uint64_t slot_bytes;
  std::uint32_t rank;
  std::uint32_t size;
  const std::uint32_t* aborted;  ///< not 0: all kernels end
  std::uint32_t* status;         ///< 0: all is well
};

/// One call, or a piece of one, no larger than a slot. Buffers may have any alignment; where they
/// have 16 bytes they are read and written by 16 bytes. They are the same, or do not overlap.
struct PeerCall {
  const void* input;
  void* output;
  std::uint64_t bytes;        ///< of an all_reduce, broadcast or reduce; else of each rank's block
  std::uint64_t stride;       ///< from one rank's block to the next in the buffers
  std::uint32_t factor;       ///< of premul_sum, as bits of the accumulator
  std::uint32_t root;         ///< of a broadcast, reduce, gather or scatter
  std::uint64_t limit;        ///< nanoseconds that may be waited; 0: for ever
  std::uint32_t has_crossed;  ///< not 0: what it works with came from other hosts by NCCL
};

}  // namespace hymn::cuda
