// A group of ranks and its collectives.
#pragma once

#include "hymn/standard.hpp"  // first

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hymn/error.hpp"
#include "hymn/explanation.hpp"
#include "hymn/export.hpp"
#include "hymn/group_options.hpp"
#include "hymn/prepared_call.hpp"
#include "hymn/registered_buffer.hpp"
#include "hymn/standard_parts.hpp"
#include "hymn/work.hpp"

namespace hymn {

namespace detail {
class GroupState;
}

/// One operation that has ended, as it is told to hooks.
struct CompletionInfo {
  OpType type = OpType::barrier;
  std::string name;            ///< "hymn:all_reduce", "hymn:send 1->0"
  std::string group;           ///< as messages name it
  std::uint64_t sequence = 0;  ///< counts collectives, or sends and receives, from 1
  bool p2p = false;
  std::size_t bytes = 0;  ///< what this rank sent; what it received, where it sent nothing
  std::string error{};    ///< why it failed; empty: it has completed
  /// From its start to its end; absent unless HYMN_RECORDER_TIMING or World::enable_timing() asks
  /// for it.
  std::optional<Duration> active{};

  bool ok() const { return error.empty(); }
};

using CompletionHook = std::function<void(const CompletionInfo&)>;

/// Who belongs to a group: a value that never changes.
struct Membership {
  /// Global ranks; a member's index is its group rank. Ascending, unless ProcessGroup::split() has
  /// ordered them by keys.
  std::vector<int> ranks;
  /// The same on every member; no other group of the world ever has it. Counts from 0 what all
  /// ranks make together.
  std::uint64_t uid = 0;
  std::uint64_t parent = 0;  ///< uid of the group it was made from
  std::uint64_t epoch = 0;   ///< grows when a group is rebuilt after a failure
  /// With the ranks it says which group this is: World::find_group(). "" for that of all ranks; one
  /// made of the uid where none was given.
  std::string tag;
};

/// A handle to a group; copies refer to the same group. All ranks given to it (roots, sources,
/// destinations) are *global* ranks.
///
/// Every member must call the same collectives in the same order. Blocking calls return when the
/// result is there; `…_async`, isend and irecv return a Work. Where a single buffer is given for
/// input and output the operation is in place. Buffers that overlap in any other way are refused,
/// as are all other faults of a call, before anything is sent (UsageError, UnsupportedError). Calls
/// by a rank that is not a member warn and do nothing; calls on a destroyed group are a UsageError,
/// calls on a group that was given up an AbortedError.
///
/// The asynchronous twin of a call takes what the call takes, and returns a Work; lists and counts
/// are copied.
///
/// Thread safety: where MPI carries the group, as the level of thread support that MPI granted says
/// (docs/threads.md); with ranks as threads, from any thread. Two threads that call collectives on
/// one group must themselves keep the order the same on all ranks.
class HYMN_API ProcessGroup {
 public:
  ProcessGroup() = default;
  explicit ProcessGroup(std::shared_ptr<detail::GroupState> state) : state_(std::move(state)) {}

  bool valid() const noexcept { return state_ != nullptr; }
  /// This rank's place in the group, or -1 for a rank outside.
  int rank() const;
  int size() const;
  bool is_member() const { return rank() >= 0; }
  const std::string& description() const;
  const Membership& membership() const;
  /// UsageError: "… not part of group" when there is no such rank in the group, "… not registered"
  /// when the group, or its world, has been destroyed.
  int global_rank(int group_rank) const;
  int group_rank(int global_rank) const;

  Timeout timeout() const;
  /// For operations that start from now on; it must be set, and may be none. It does not change
  /// which of MPI's calls are made: see GroupOptions.
  void set_timeout(Timeout timeout);

  /// The number of collectives (sends, receives and probes) started so far.
  std::uint64_t collective_sequence() const;
  std::uint64_t p2p_sequence() const;

  /// What has carried the operations that this rank has started on this group so far, in order of
  /// preference, without algorithms that carried none; sends and receives are counted together.
  /// What fails after its start counts, what is refused does not; of a batch each counts, and of
  /// coalesced ones what travels together once. Empty on a rank outside. Thread-safe.
  std::vector<AlgorithmUse> uses() const;

  /// How many NCCL communicators were split from this group's on this rank.
  std::uint64_t comm_split_count() const;

  // --- Everything below comes down to these three, and is inlined: the flight recorder keeps where
  // they are called from.
  // -------------------------------------------------

  /// Carries the request out and returns when it is complete.
  RecvStatus run(const Request& request, const CallOptions& options = {});
  /// Starts the request.
  Work start(const Request& request, const CallOptions& options = {});
  /// How the request would be carried out; nothing is sent, and only this rank need call.
  Explanation explain(const Request& request) const;

  /// Checks the request, and chooses its path, for all the calls that the handle will make. Only
  /// this rank need prepare it, and nothing is sent. `options` are those of each call. Throws as
  /// the call would before anything is sent.
  PreparedCall prepare(const Request& request, const CallOptions& options = {}) const;

  // --- Collectives
  // ---------------------------------------------------------------------------------

  HYMN_INLINE void all_reduce(BufferView inout, ReduceOp op = {}, const CallOptions& options = {}) {
    run(Request::all_reduce(inout, inout, op), options);
  }
  HYMN_INLINE void all_reduce(ConstBufferView in, BufferView out, ReduceOp op = {},
                              const CallOptions& options = {}) {
    run(Request::all_reduce(in, out, op), options);
  }
  /// The reduction of one value of each rank: `double total = group.all_reduced(part)`. UsageError
  /// inside a coalescing scope, where there is no result yet.
  template <Element T>
  HYMN_INLINE T all_reduced(T value, ReduceOp op = {}, const CallOptions& options = {}) {
    require_no_scope("all_reduced");
    run(Request::all_reduce(view_of(std::as_const(value)), view_of(value), op), options);
    return value;
  }
  HYMN_INLINE Work all_reduce_async(BufferView inout, ReduceOp op = {},
                                    const CallOptions& options = {}) {
    return start(Request::all_reduce(inout, inout, op), options);
  }
  HYMN_INLINE Work all_reduce_async(ConstBufferView in, BufferView out, ReduceOp op = {},
                                    const CallOptions& options = {}) {
    return start(Request::all_reduce(in, out, op), options);
  }

  HYMN_INLINE void broadcast(BufferView inout, int root, const CallOptions& options = {}) {
    run(Request::broadcast(inout, root), options);
  }
  HYMN_INLINE Work broadcast_async(BufferView inout, int root, const CallOptions& options = {}) {
    return start(Request::broadcast(inout, root), options);
  }

  HYMN_INLINE void reduce(BufferView inout, int root, ReduceOp op = {},
                          const CallOptions& options = {}) {
    run(Request::reduce(inout, inout, root, op), options);
  }
  HYMN_INLINE void reduce(ConstBufferView in, BufferView out, int root, ReduceOp op = {},
                          const CallOptions& options = {}) {
    run(Request::reduce(in, out, root, op), options);
  }
  HYMN_INLINE Work reduce_async(ConstBufferView in, BufferView out, int root, ReduceOp op = {},
                                const CallOptions& options = {}) {
    return start(Request::reduce(in, out, root, op), options);
  }
  HYMN_INLINE Work reduce_async(BufferView inout, int root, ReduceOp op = {},
                                const CallOptions& options = {}) {
    return start(Request::reduce(inout, inout, root, op), options);
  }

  /// `out` counts on the root only: size() times in.count elements, in rank order. Elsewhere one of
  /// another dtype is refused, unless it is empty.
  HYMN_INLINE void gather(ConstBufferView in, BufferView out, int root,
                          const CallOptions& options = {}) {
    run(Request::gather(in, OutputBlocks::equal(out), root), options);
  }
  /// One buffer for each rank on the root, an empty list elsewhere.
  HYMN_INLINE void gather(ConstBufferView in, std::span<const BufferView> out, int root,
                          const CallOptions& options = {}) {
    run(Request::gather(in, list_or_none<OutputBlocks>(out), root), options);
  }
  /// Uneven: rank i contributes counts[i] elements; `counts` must be the same on all ranks.
  HYMN_INLINE void gather(ConstBufferView in, BufferView out, std::span<const std::size_t> counts,
                          int root, const CallOptions& options = {}) {
    run(Request::gather(in, OutputBlocks::counted(out, counts), root), options);
  }
  HYMN_INLINE Work gather_async(ConstBufferView in, BufferView out, int root,
                                const CallOptions& options = {}) {
    return start(Request::gather(in, OutputBlocks::equal(out), root), options);
  }
  HYMN_INLINE Work gather_async(ConstBufferView in, std::span<const BufferView> out, int root,
                                const CallOptions& options = {}) {
    return start(Request::gather(in, list_or_none<OutputBlocks>(out), root), options);
  }
  HYMN_INLINE Work gather_async(ConstBufferView in, BufferView out,
                                std::span<const std::size_t> counts, int root,
                                const CallOptions& options = {}) {
    return start(Request::gather(in, OutputBlocks::counted(out, counts), root), options);
  }

  /// `in` counts on the root only: size() times out.count elements, in rank order. Elsewhere one of
  /// another dtype is refused, unless it is empty.
  HYMN_INLINE void scatter(ConstBufferView in, BufferView out, int root,
                           const CallOptions& options = {}) {
    run(Request::scatter(InputBlocks::equal(in), out, root), options);
  }
  HYMN_INLINE void scatter(std::span<const ConstBufferView> in, BufferView out, int root,
                           const CallOptions& options = {}) {
    run(Request::scatter(list_or_none<InputBlocks>(in), out, root), options);
  }
  HYMN_INLINE void scatter(ConstBufferView in, std::span<const std::size_t> counts, BufferView out,
                           int root, const CallOptions& options = {}) {
    run(Request::scatter(InputBlocks::counted(in, counts), out, root), options);
  }
  HYMN_INLINE Work scatter_async(ConstBufferView in, BufferView out, int root,
                                 const CallOptions& options = {}) {
    return start(Request::scatter(InputBlocks::equal(in), out, root), options);
  }
  HYMN_INLINE Work scatter_async(std::span<const ConstBufferView> in, BufferView out, int root,
                                 const CallOptions& options = {}) {
    return start(Request::scatter(list_or_none<InputBlocks>(in), out, root), options);
  }
  HYMN_INLINE Work scatter_async(ConstBufferView in, std::span<const std::size_t> counts,
                                 BufferView out, int root, const CallOptions& options = {}) {
    return start(Request::scatter(InputBlocks::counted(in, counts), out, root), options);
  }

  /// Blocks may be given in three forms: equal, by counts, or as a list. All ranks of a call give
  /// them in the same. Complex buffers may stand beside real views of such memory (twice as many
  /// elements), in one list, too.
  HYMN_INLINE void all_gather(ConstBufferView in, BufferView out, const CallOptions& options = {}) {
    run(Request::all_gather(in, OutputBlocks::equal(out)), options);
  }
  HYMN_INLINE void all_gather(ConstBufferView in, std::span<const BufferView> out,
                              const CallOptions& options = {}) {
    run(Request::all_gather(in, OutputBlocks::list(out)), options);
  }
  /// Uneven: rank i contributes counts[i] elements; `counts` must be the same on all ranks.
  HYMN_INLINE void all_gather(ConstBufferView in, BufferView out,
                              std::span<const std::size_t> counts,
                              const CallOptions& options = {}) {
    run(Request::all_gather(in, OutputBlocks::counted(out, counts)), options);
  }
  HYMN_INLINE Work all_gather_async(ConstBufferView in, BufferView out,
                                    const CallOptions& options = {}) {
    return start(Request::all_gather(in, OutputBlocks::equal(out)), options);
  }
  HYMN_INLINE Work all_gather_async(ConstBufferView in, std::span<const BufferView> out,
                                    const CallOptions& options = {}) {
    return start(Request::all_gather(in, OutputBlocks::list(out)), options);
  }
  HYMN_INLINE Work all_gather_async(ConstBufferView in, BufferView out,
                                    std::span<const std::size_t> counts,
                                    const CallOptions& options = {}) {
    return start(Request::all_gather(in, OutputBlocks::counted(out, counts)), options);
  }

  HYMN_INLINE void reduce_scatter(ConstBufferView in, BufferView out, ReduceOp op = {},
                                  const CallOptions& options = {}) {
    run(Request::reduce_scatter(InputBlocks::equal(in), out, op), options);
  }
  HYMN_INLINE void reduce_scatter(std::span<const ConstBufferView> in, BufferView out,
                                  ReduceOp op = {}, const CallOptions& options = {}) {
    run(Request::reduce_scatter(InputBlocks::list(in), out, op), options);
  }
  /// Uneven: rank i receives counts[i] elements; `counts` must be the same on all ranks.
  HYMN_INLINE void reduce_scatter(ConstBufferView in, std::span<const std::size_t> counts,
                                  BufferView out, ReduceOp op = {},
                                  const CallOptions& options = {}) {
    run(Request::reduce_scatter(InputBlocks::counted(in, counts), out, op), options);
  }
  HYMN_INLINE Work reduce_scatter_async(ConstBufferView in, BufferView out, ReduceOp op = {},
                                        const CallOptions& options = {}) {
    return start(Request::reduce_scatter(InputBlocks::equal(in), out, op), options);
  }
  HYMN_INLINE Work reduce_scatter_async(std::span<const ConstBufferView> in, BufferView out,
                                        ReduceOp op = {}, const CallOptions& options = {}) {
    return start(Request::reduce_scatter(InputBlocks::list(in), out, op), options);
  }
  HYMN_INLINE Work reduce_scatter_async(ConstBufferView in, std::span<const std::size_t> counts,
                                        BufferView out, ReduceOp op = {},
                                        const CallOptions& options = {}) {
    return start(Request::reduce_scatter(InputBlocks::counted(in, counts), out, op), options);
  }

  /// Prefix reductions: `out` receives the reduction of the inputs of group ranks 0 … rank(), none
  /// of which changes its place. Where steps round, how they are put in brackets depends on the
  /// path, and MPI need not do it alike in each call. A group at Reproducibility::placement gets
  /// ((x0 + x1) + x2) + …, and one at Reproducibility::size exact sums (docs/reproducibility.md).
  /// As in all_reduce, all ranks give the same number of elements; `avg` is refused, and only
  /// memory of the host is taken.
  HYMN_INLINE void scan(BufferView inout, ReduceOp op = {}, const CallOptions& options = {}) {
    run(Request::scan(inout, inout, op), options);
  }
  HYMN_INLINE void scan(ConstBufferView in, BufferView out, ReduceOp op = {},
                        const CallOptions& options = {}) {
    run(Request::scan(in, out, op), options);
  }
  HYMN_INLINE Work scan_async(BufferView inout, ReduceOp op = {}, const CallOptions& options = {}) {
    return start(Request::scan(inout, inout, op), options);
  }
  HYMN_INLINE Work scan_async(ConstBufferView in, BufferView out, ReduceOp op = {},
                              const CallOptions& options = {}) {
    return start(Request::scan(in, out, op), options);
  }
  /// The same of group ranks 0 … rank() - 1. Group rank 0 has none before it: its `out` is given,
  /// but left as it is (MPI: undefined).
  HYMN_INLINE void exscan(BufferView inout, ReduceOp op = {}, const CallOptions& options = {}) {
    run(Request::exscan(inout, inout, op), options);
  }
  HYMN_INLINE void exscan(ConstBufferView in, BufferView out, ReduceOp op = {},
                          const CallOptions& options = {}) {
    run(Request::exscan(in, out, op), options);
  }
  HYMN_INLINE Work exscan_async(BufferView inout, ReduceOp op = {},
                                const CallOptions& options = {}) {
    return start(Request::exscan(inout, inout, op), options);
  }
  HYMN_INLINE Work exscan_async(ConstBufferView in, BufferView out, ReduceOp op = {},
                                const CallOptions& options = {}) {
    return start(Request::exscan(in, out, op), options);
  }

  HYMN_INLINE void all_to_all(ConstBufferView in, BufferView out, const CallOptions& options = {}) {
    run(Request::all_to_all(InputBlocks::equal(in), OutputBlocks::equal(out)), options);
  }
  HYMN_INLINE void all_to_all(std::span<const ConstBufferView> in, std::span<const BufferView> out,
                              const CallOptions& options = {}) {
    run(Request::all_to_all(InputBlocks::list(in), OutputBlocks::list(out)), options);
  }
  /// Given splits: in_counts[j] elements go to rank j, out_counts[i] come from rank i; zeros
  /// allowed.
  HYMN_INLINE void all_to_all(ConstBufferView in, std::span<const std::size_t> in_counts,
                              BufferView out, std::span<const std::size_t> out_counts,
                              const CallOptions& options = {}) {
    run(Request::all_to_all(InputBlocks::counted(in, in_counts),
                            OutputBlocks::counted(out, out_counts)),
        options);
  }
  HYMN_INLINE Work all_to_all_async(ConstBufferView in, BufferView out,
                                    const CallOptions& options = {}) {
    return start(Request::all_to_all(InputBlocks::equal(in), OutputBlocks::equal(out)), options);
  }
  HYMN_INLINE Work all_to_all_async(std::span<const ConstBufferView> in,
                                    std::span<const BufferView> out,
                                    const CallOptions& options = {}) {
    return start(Request::all_to_all(InputBlocks::list(in), OutputBlocks::list(out)), options);
  }
  HYMN_INLINE Work all_to_all_async(ConstBufferView in, std::span<const std::size_t> in_counts,
                                    BufferView out, std::span<const std::size_t> out_counts,
                                    const CallOptions& options = {}) {
    return start(Request::all_to_all(InputBlocks::counted(in, in_counts),
                                     OutputBlocks::counted(out, out_counts)),
                 options);
  }

  HYMN_INLINE void barrier(const CallOptions& options = {}) { run(Request::barrier(), options); }
  HYMN_INLINE Work barrier_async(const CallOptions& options = {}) {
    return start(Request::barrier(), options);
  }
  /// A barrier that all members' GPUs take part in: before it is over, these have come to the end
  /// of what their default stream (or the one of the options) held at the call. The ids are those
  /// of this rank's GPU in the group (GroupOptions::gpu, or else World::gpu()), one at most; none:
  /// a barrier as above. All members give ids, or none does. Throws UsageError for any other GPU,
  /// and "Invalid function argument" for a number in the place of the list; UnsupportedError where
  /// the group works on no GPU.
  HYMN_INLINE void barrier(std::span<const int> device_ids, const CallOptions& options = {}) {
    if (device_ids.empty()) return barrier(options);
    start(Request::barrier(), on_devices(device_ids, options)).wait();
  }
  HYMN_INLINE void barrier(std::initializer_list<int> device_ids, const CallOptions& options = {}) {
    barrier(std::span<const int>(device_ids.begin(), device_ids.size()), options);
  }
  HYMN_INLINE Work barrier_async(std::span<const int> device_ids, const CallOptions& options = {}) {
    return start(Request::barrier(), on_devices(device_ids, options));
  }
  HYMN_INLINE Work barrier_async(std::initializer_list<int> device_ids,
                                 const CallOptions& options = {}) {
    return barrier_async(std::span<const int>(device_ids.begin(), device_ids.size()), options);
  }
  template <std::integral Number>
  void barrier(Number device_id, const CallOptions& = {}) {
    refuse_device_id(device_id);
  }
  template <std::integral Number>
  void barrier_async(Number device_id, const CallOptions& = {}) {
    refuse_device_id(device_id);
  }

  // --- Coalesced: several collectives as one
  // -----------------------------------------------------------------------------

  /// Starts collectives of one kind, dtype, reduction and root together, as one operation: with one
  /// Work that completes when all have, one number and one record. Small ones in host memory travel
  /// together; NCCL is given all that it carries in one group call. All members give the same ones,
  /// in the same form: coalesced calls do not match single ones. Throws UsageError for an empty
  /// list, for calls that are not alike, and where one writes what another one reads or writes.
  /// Calls one by one, and messages, can be coalesced by hymn::coalesce(). docs/coalescing.md
  Work start_coalesced(std::span<const Request> requests, const CallOptions& options = {});

  /// Each in place.
  HYMN_INLINE void all_reduce_coalesced(std::span<const BufferView> inouts, ReduceOp op = {},
                                        const CallOptions& options = {}) {
    run_coalesced(inouts.size(), options,
                  [&](std::size_t i) { return Request::all_reduce(inouts[i], inouts[i], op); });
  }
  /// outs[i] holds size() times as many elements as ins[i].
  HYMN_INLINE void all_gather_coalesced(std::span<const ConstBufferView> ins,
                                        std::span<const BufferView> outs,
                                        const CallOptions& options = {}) {
    run_coalesced(std::size_t{ins.size() < outs.size() ? outs.size() : ins.size()}, options,
                  [&](std::size_t i) {
                    return Request::all_gather(at(ins, i), OutputBlocks::equal(at(outs, i)));
                  });
  }
  /// ins[i] holds size() times as many elements as outs[i].
  HYMN_INLINE void reduce_scatter_coalesced(std::span<const ConstBufferView> ins,
                                            std::span<const BufferView> outs, ReduceOp op = {},
                                            const CallOptions& options = {}) {
    run_coalesced(std::size_t{ins.size() < outs.size() ? outs.size() : ins.size()}, options,
                  [&](std::size_t i) {
                    return Request::reduce_scatter(InputBlocks::equal(at(ins, i)), at(outs, i), op);
                  });
  }

  // --- Buffers that NCCL knows
  // ------------------------------------------------------------------------------------------

  /// Registers `bytes` bytes at `data`, in the memory of this rank's GPU, with this group's
  /// communicator of NCCL: operations on buffers that lie in it may then read and write them where
  /// they lie. All members call it, in the order of their collectives; it waits until the
  /// communicator is there, within the limit. Registration::window wants memory from
  /// allocate_registered(), or of CUDA's virtual memory, and the same size on all members.
  ///
  /// Throws UnsupportedError where NCCL does not carry this group, or is older than what is asked
  /// for (it says which version has it), UsageError for memory that is not this rank's GPU's,
  /// TimeoutError where a member does not arrive, and BackendError.
  RegisteredBuffer register_buffer(void* data, std::size_t bytes,
                                   Registration how = Registration::local,
                                   const CallOptions& options = {});
  /// The same with memory that NCCL allocates, in the way that suits it best (NCCL 2.19 or newer),
  /// and that is freed with the registration.
  RegisteredBuffer allocate_registered(std::size_t bytes, Registration how = Registration::local,
                                       const CallOptions& options = {});

  // --- Point to point: between two members, matched by source and tag (0 … max_tag)
  // ----------------

  static constexpr int max_tag = 16383;

  HYMN_INLINE void send(ConstBufferView in, int destination, int tag = 0,
                        const CallOptions& options = {}) {
    run(Request::send(in, destination, tag), options);
  }
  /// A message longer than `out` is an error; a shorter one is told by the status.
  HYMN_INLINE RecvStatus recv(BufferView out, int source, int tag = 0,
                              const CallOptions& options = {}) {
    return run(Request::recv(out, source, tag), options);
  }
  HYMN_INLINE Work isend(ConstBufferView in, int destination, int tag = 0,
                         const CallOptions& options = {}) {
    return start(Request::send(in, destination, tag), options);
  }
  HYMN_INLINE Work irecv(BufferView out, int source, int tag = 0, const CallOptions& options = {}) {
    return start(Request::recv(out, source, tag), options);
  }
  /// Starts all of them together; the Work completes when all have.
  ///
  /// A rank may send to itself here, and here alone: the batch then holds the send and the receive
  /// from the own rank, matched by tag and order, and the one is copied to the other. Throws
  /// UsageError, before anything is sent, where one of them has no other (a receive from any source
  /// takes none), is longer than its buffer, or overlaps it; UnsupportedError in the memory of a
  /// GPU.
  Work batch_isend_irecv(std::span<const P2POp> operations, const CallOptions& options = {});

  /// As MPI_Sendrecv: sends and receives as one batch, so that neither waits for the other. Peers,
  /// tags and sizes may differ; the rank itself may be both peers, with one tag. Throws UsageError
  /// where the buffers overlap. On a stream (CallOptions::stream) the status tells nothing.
  RecvStatus sendrecv(ConstBufferView in, int destination, int send_tag, BufferView out, int source,
                      int recv_tag, const CallOptions& options = {});
  /// Only starts it: Work::statuses() tells what came.
  Work sendrecv_async(ConstBufferView in, int destination, int send_tag, BufferView out, int source,
                      int recv_tag, const CallOptions& options = {});
  /// As MPI_Sendrecv_replace: what comes takes the place of what is sent, of which a copy is made.
  /// Throws UnsupportedError for a buffer in the memory of a GPU, and for elements whose layout MPI
  /// alone knows.
  RecvStatus sendrecv_replace(BufferView inout, int destination, int send_tag, int source,
                              int recv_tag, const CallOptions& options = {});

  /// As MPI_Probe: waits, within the limit, until a message has come that recv(…, source, tag)
  /// would take, and tells of it; `source` may be any_source. It is left there: recv(…,
  /// info.source, info.tag) takes it, unless another thread of the rank does so first. Receives
  /// that wait already have their messages first. What comes in the memory of a GPU is not seen,
  /// nor are elements of MPI types whose layout MPI alone knows, unless MPI carries all messages of
  /// the group. Throws UsageError for a stream.
  MessageInfo probe(int source, int tag = 0, const CallOptions& options = {});
  /// As MPI_Iprobe: the same without waiting; nothing where none has come. It moves what is in
  /// flight on this rank. Who polls receives messages with other tags, too: so many bar the way to
  /// what comes behind them (docs/messages.md). Throws where a message can come no more: PeerError,
  /// AbortedError.
  std::optional<MessageInfo> iprobe(int source, int tag = 0);
  // --- Groups of its members

  /// For split(): this rank is to be in none of the new groups.
  static constexpr int no_color = -1;
  /// As MPI_Comm_split: the members that give the same `color` (0 or more) become a group, in the
  /// order of their keys, those with equal keys in their order here. Every member calls it, as a
  /// collective of this group (it makes an all_gather); then each new group is made by its members
  /// alone (GroupOptions::local_sync). Who gives no_color gets an empty handle (valid() is false),
  /// as does a rank outside, which is warned. Throws UsageError for another color below 0, and
  /// otherwise what all_gather and World::new_group() do.
  ProcessGroup split(int color, int key = 0, const GroupOptions& options = {});

  // --- Failures

  /// Gives the group up on all its ranks: whatever is in flight, here and there, ends with an
  /// AbortedError that carries the reason, as does every later call. From any thread, also while
  /// others wait in calls; only a call that blocks inside MPI (Timeout::none(), docs/timeouts.md)
  /// cannot be ended so. What is in flight on this rank has completed when it returns, or when
  /// is_aborted() has returned true, on a thread that may make calls of the group: both run what
  /// was chained to that (docs/threads.md).
  void abort(const std::string& reason);
  bool is_aborted() const;

  /// After a failure: a new group of the members that are left, which all of them call. Gives this
  /// group up if that has not happened yet. Waits until every member has called it or is known to
  /// be gone, for up to the limit on creating groups. Can be called again when another member fails
  /// meanwhile. Throws TimeoutError when a member that is alive does not call it, and
  /// UnsupportedError where there is no control plane (HYMN_CONTROL).
  ProcessGroup shrink();

  // --- What has ended
  // ------------------------------------------------------------------------------------

  /// From now on `hook` is called for each operation of this group on this rank that ends,
  /// successfully or not, blocking or not, once and in the order in which they end; a batch is one
  /// operation. It is called outside of all locks, by a thread that ends operations, and may make
  /// calls itself. What it throws is logged. All hooks have been called when
  /// wait_for_pending_works() or destroy() returns. Calls that are refused are no operations.
  void on_completion(CompletionHook hook);
  /// Waits for all that is in flight on this group now: for each as Work::wait() does, or for all
  /// together as Work::wait(timeout) does. When all have ended the first error is thrown.
  void wait_for_pending_works(Timeout timeout = {});

  // --- End
  // -----------------------------------------------------------------------------------------

  /// Waits for this rank's pending work within the group's timeout, gives up what is left, and ends
  /// the group. Local: other ranks may do it earlier, later, or in another order. Calling it twice
  /// is fine.
  void destroy();
  bool is_destroyed() const;

 private:
  friend class detail::GroupState;
  template <class Build>
  HYMN_INLINE void run_coalesced(std::size_t count, const CallOptions& options, Build&& build) {
    std::vector<Request> requests;
    requests.reserve(count);
    for (std::size_t i = 0; i < count; ++i) requests.push_back(build(i));
    Work work = start_coalesced(requests, options);
    if (options.stream == nullptr) work.wait();
  }
  void require_no_scope(const char* call) const;
  CallOptions on_devices(std::span<const int> device_ids, const CallOptions& options) const;
  [[noreturn]] void refuse_device_id(std::int64_t device_id) const;
  /// Lists of different lengths are refused.
  template <class View>
  static const View& at(std::span<const View> views, std::size_t index) {
    if (index >= views.size())
      throw UsageError("the numbers of inputs and outputs differ", {.remedy = "give one for each"});
    return views[index];
  }
  template <class Side, class View>
  static Side list_or_none(std::span<const View> views) {
    return views.empty() ? Side() : Side::list(views);
  }

  std::shared_ptr<detail::GroupState> state_;
};

}  // namespace hymn
