// What can be said of a group when it is made, and of each of its calls.
#pragma once

#include "hymn/standard.hpp"  // first

#include <optional>
#include <string>

#include "hymn/call_site.hpp"
#include "hymn/nccl_options.hpp"
#include "hymn/timeout.hpp"
#include "hymn/types.hpp"

namespace hymn {

/// Options of one call.
struct CallOptions {
  Timeout timeout{};  ///< unset: the group's
  /// A CUDA stream (cudaStream_t or CUstream) of this rank's GPU in the group, for buffers in its
  /// memory; null: none. The operation comes after what is on the stream at the call, and what is
  /// enqueued there later comes after the operation. Then the blocking forms, too, return when all
  /// of it is on the stream; the limit still applies, and a failure gives the group up. The default
  /// stream is given as cudaStreamLegacy or cudaStreamPerThread. On a stream that is captured into
  /// a graph the operation becomes part of the graph: it has ended for hymn, and has no limit when
  /// the graph runs.
  void* stream = nullptr;
  CallSite site = CallSite::of_the_call;
};

/// Options of a group.
struct GroupOptions {
  std::string description{};  ///< shown in messages; "undefined" unless given
  /// For every operation; unset: the world's, or else HYMN_TIMEOUT, or else 10 minutes where all
  /// members have a GPU, and 30 minutes elsewhere. A group made with Timeout::none() on all its
  /// ranks, in a world in which no ranks share memory, makes MPI's plain blocking calls, which are
  /// faster; as in MPI, all its ranks must then use the same form of a call, blocking or not, and
  /// the same timeout of their own. See docs/timeouts.md.
  Timeout timeout{};
  /// For creating this group; unset: as WorldOptions::init_timeout.
  Timeout init_timeout{};
  std::string path{};  ///< as HYMN_PATH, for this group; empty: HYMN_PATH
  std::string algo{};  ///< as HYMN_ALGO, for this group; empty: HYMN_ALGO
  /// As HYMN_REPRODUCIBLE, for this group; unset: the world's.
  std::optional<Reproducibility> reproducibility{};
  /// As HYMN_NAN_CHECK, for this group on this rank; unset: HYMN_NAN_CHECK.
  std::optional<bool> nan_check{};
  /// For the memory of GPUs.
  NcclOptions nccl{};
  /// As HYMN_STREAM_PRIORITY, for this group on this rank: whether operations that are given no
  /// stream run on one of high priority; unset: HYMN_STREAM_PRIORITY.
  std::optional<bool> high_priority_stream{};
  /// Which of the GPUs that this process sees the group works on, as CUDA numbers them here; unset:
  /// the rank's own (World::gpu()). Members may name different ones. Everything of the group that
  /// is on a GPU is on that one then: buffers, streams, NCCL's communicator, which is a new one as
  /// soon as any member names a GPU, and what is staged. Peer memory serves groups on the
  /// ranks' own GPUs alone. A number that is not there is a UsageError on all members. See
  /// docs/gpu.md.
  std::optional<int> gpu{};
  /// Only the members make the group, when they need it: World::new_group().
  bool local_sync = false;
  /// The same ranks with the same tag are the same group: World::new_group(). Empty: a new group,
  /// which gets a tag of its own (Membership::tag). "hymn:" at the beginning is for these.
  std::string tag{};
};

}  // namespace hymn
