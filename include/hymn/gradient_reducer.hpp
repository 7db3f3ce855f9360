// Averages the gradients of a model over the ranks that train it, while they are still being
// computed: docs/training.md. It belongs to libhymn-training (hymn::training).
#pragma once

#include "hymn/standard.hpp"  // first

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "hymn/future.hpp"
#include "hymn/join.hpp"
#include "hymn/process_group.hpp"
#include "hymn/sparse.hpp"
#include "hymn/standard_parts.hpp"

namespace hymn::training {

namespace detail {
class BucketPart;
class ReducerState;
}  // namespace detail

/// A parameter of a model. Parameters that share memory are one.
struct Parameter {
  std::string name;
  /// Its values, of a floating-point or complex type, in the memory of the host or of a GPU. Shape
  /// and strides are copied; a dense layout, whatever the order of its dimensions.
  BufferView data;
  /// Where the framework leaves its gradient, which has the type and the layout of the values, and
  /// is where they are. Unused with ReducerOptions::gradient_as_bucket_view.
  BufferView gradient{};
  /// How many dimensions of its gradient are sparse: 1 for rows of an embedding. 0: it is dense.
  /// A sparse gradient is given to ready(), in memory of the host, and needs no place.
  std::size_t sparse_dims = 0;
};

/// Gradients of one type, in one memory, that are reduced together, as a hook sees them. A handle,
/// which is cheap to copy; the memory lives as long as any handle, and as what works on it.
class HYMN_API GradBucket {
 public:
  explicit GradBucket(std::shared_ptr<detail::BucketPart> part) : part_(std::move(part)) {}

  /// Buckets are reduced in the order of their numbers, from 0.
  std::size_t index() const;
  bool is_last() const;
  /// All gradients of it, one after the other. A hook may change them.
  BufferView buffer() const;
  /// Which parameters these are of, as indices into the list that the reducer was given.
  std::vector<std::size_t> parameters() const;
  /// The part of buffer() that is of the i-th of them, in the shape of the parameter.
  BufferView gradient(std::size_t i) const;
  /// That works on the GPU of the gradients, where they are on one.
  const ProcessGroup& group() const;
  /// In the memory of a GPU: the stream on which they are there, for CallOptions::stream; what is
  /// enqueued there before the hook's future has its value comes before they are put back. Else
  /// null.
  void* stream() const;
  /// How many ranks an average is over: the size of the group, in a Join what that says.
  int divisor() const;

  /// Starts the average of `buffer` over the ranks, in place: what reducers do without a hook. Its
  /// type must be one that can hold fractions. On a GPU it is on stream(). `owner` lives until
  /// nothing works on it any more; that of buffer() does so anyway.
  Work average(BufferView buffer, std::shared_ptr<void> owner = nullptr) const;
  /// The same bucket with other memory in place of its own, and as many elements; for hooks that
  /// call others. `owner` lives as long as handles do, and as what works on it. UsageError for
  /// another number of elements.
  GradBucket with_buffer(BufferView buffer, std::shared_ptr<void> owner) const;

 private:
  std::shared_ptr<detail::BucketPart> part_;
};

/// Reduces a bucket: starts what that takes, and says when the reduced gradients will be where: in
/// buffer(), or in other memory with as many elements of the same type, which stays until the next
/// call of finish() has returned. The reducer does not divide them by anything. All ranks give the
/// same hook, and it makes the same collectives on all, none of them in what it chains. It runs
/// inside prepare(), ready() and finish(), and while ranks that have run out of input shadow these;
/// what it throws is thrown there, with the group given up, and so is what its future fails with,
/// in finish().
using CommHook = std::function<Future<BufferView>(const GradBucket&)>;

/// The same on all ranks.
struct ReducerOptions {
  /// The bucket of the gradients that are ready first is small, so that reduction begins early.
  std::size_t first_bucket_bytes = std::size_t{1} << 20;
  std::size_t bucket_bytes = std::size_t{25} << 20;
  /// Gradients lie in the buckets themselves: GradientReducer::gradient() says where. That saves a
  /// copy there and one back. prepare() is then called before each backward pass.
  bool gradient_as_bucket_view = false;
  /// Not all parameters take part in each iteration, and ranks may use different ones: prepare()
  /// says which. What no rank has used keeps its gradient; in a bucket that is zeros. Costs an
  /// all_reduce of a byte for each parameter in each iteration. With static_graph it is not needed,
  /// and not looked at.
  bool find_unused_parameters = false;
  /// Each iteration is as the first: the same parameters take part, and each gradient is ready as
  /// often (where there are several backward passes, or checkpoints). In the first one nothing is
  /// reduced before finish(), which learns this.
  bool static_graph = false;
  /// The values of all parameters become those of the group's first rank, when the reducer is made.
  bool broadcast_parameters = true;
  CommHook hook{};  ///< unset: averages
  /// What a model keeps besides parameters, such as running means, of any type and in any memory,
  /// dense: that of the group's first rank becomes everybody's when the reducer is made, and
  /// at the end of each iteration that reduces; in a Join, of who stands in for it.
  std::vector<BufferView> buffers{};
  /// The stream that gradients of that GPU are computed on now, which may be another one at each
  /// call; as CUDA numbers GPUs in this process. It must live until finish() has returned, and
  /// where something has failed until the reducer has ended. Called in calls of the reducer, its
  /// end included, on their thread. Unset, and null: the legacy default stream of that GPU.
  std::function<void*(int gpu)> stream{};
};

/// For each iteration the framework calls prepare(), ready() for each parameter whose gradient is
/// there, and finish(), after which gradients are averages over all ranks. Reduction of a bucket
/// begins when all of its gradients are ready, and goes on while others are computed: in each call
/// of ready(), and on the progress thread where there is one (docs/threads.md).
///
/// After the first iteration (but for those with find_unused_parameters alone) buckets are made
/// anew, once, in the order in which the first rank's gradients were ready.
///
/// Gradients may be in the memory of GPUs, of which a rank may use several, as many as the others:
/// each further one gets a group of its own (GroupOptions::gpu). There all of it is in the order of
/// ReducerOptions::stream: ready() tells of a gradient that is enqueued, averages are made beside
/// that stream, and what is enqueued there when finish() has returned finds them. The host waits
/// for GPUs no more than calls on these groups do.
///
/// Thread safety: one call at a time. Buckets are reduced when gradients are ready, which differs
/// from rank to rank: between prepare() and finish() nothing else is called on the group.
class HYMN_API GradientReducer : public Joinable {
 public:
  /// Compares the models of all ranks, and broadcasts the values. All members of the group make it.
  ///
  /// Throws UsageError, on all ranks, where names, types, shapes, strides or options are not those
  /// of the first rank ("… appears not to match strides of the same param in process 0"), or where
  /// one has parameters without values, of other types, or whose elements do not lie densely, some
  /// in the memory of GPUs and some not, or gradients that do not lie as they do; UnsupportedError
  /// for what is not there in the memory of GPUs: sparse gradients, and hooks that compress.
  GradientReducer(ProcessGroup group, std::vector<Parameter> parameters,
                  ReducerOptions options = {});
  ~GradientReducer() override;

  /// Begins an iteration in which all parameters take part. May be left out, but with
  /// gradient_as_bucket_view.
  void prepare();
  /// The same with those parameters alone; only with find_unused_parameters.
  void prepare(std::span<const std::size_t> used);
  /// The gradient of this parameter is there. Throws UsageError where it has been already in this
  /// iteration, but with static_graph.
  void ready(std::size_t parameter);
  /// The same of a parameter whose gradient is sparse. It stays where it is until finish() of an
  /// iteration that reduces has returned. Indices may come several times. UsageError for another
  /// type, or other sizes, than the parameter's.
  void ready(std::size_t parameter, const SparseView& gradient);
  /// The indices that this parameter's gradient can have entries at, from the next iteration on:
  /// [sparse_dims x rows], in any order, each once. Then values alone travel, and the average has
  /// an entry for each of them; nothing: indices travel again. Copied; the same on all ranks, else
  /// the next finish() throws on all of them, as for entries elsewhere: UsageError, or AbortedError
  /// where another rank has told of it first. UsageError in the midst of an iteration, for a
  /// parameter that there is not, and for one whose gradient is dense.
  void set_sparse_metadata(std::size_t parameter, std::span<const std::int64_t> indices);
  /// Ends the iteration: waits until all is reduced, and puts the averages where the gradients
  /// were. Throws UsageError where parameters that take part were not ready; then this rank gives
  /// the group up, with that reason, as the others wait for it. Throws, too, what the reduction
  /// does (PeerError, TimeoutError, …), with the group given up.
  void finish();

  /// Where that parameter's gradient is. With gradient_as_bucket_view it may have moved after
  /// prepare(), with its contents.
  BufferView gradient(std::size_t parameter) const;
  /// The average of a sparse one, from finish() to the next: each index once. Without entries
  /// where no rank has given any.
  const SparseTensor& sparse_gradient(std::size_t parameter) const;
  /// What keeps that memory, also when the reducer is gone; null where it is the framework's own.
  std::shared_ptr<void> gradient_owner(std::size_t parameter) const;
  /// Whether all parameters that take part in this iteration are ready, so that finish() is next.
  /// No in the first iteration of a static graph, which has no end of its own.
  bool is_complete() const;
  /// Whether the last reduction has left that gradient as it was, because no rank used it.
  bool is_unused(std::size_t parameter) const;
  /// For each bucket, its parameters.
  std::vector<std::vector<std::size_t>> buckets() const;

  /// While one of these lives no iteration that begins reduces anything: gradients add up on each
  /// rank, as the framework adds them, and the first iteration after it reduces the sums. The same
  /// on all ranks. UsageError in the midst of an iteration.
  class [[nodiscard]] NoSync {
   public:
    explicit NoSync(GradientReducer& reducer) : reducer_(reducer) { reducer_.hold_sync(); }
    ~NoSync() { reducer_.release_sync(); }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    GradientReducer& reducer_;
  };
  NoSync no_sync() { return NoSync(*this); }

  /// Ranks that have run out make the collectives of an iteration; when all have, parameters become
  /// those of a rank that had most. The reducer calls Join::notify() itself, in prepare().
  std::unique_ptr<JoinHook> join_hook(const JoinArguments& arguments) override;
  ProcessGroup join_group() const override;

 private:
  void hold_sync();
  void release_sync() noexcept;
  std::unique_ptr<detail::ReducerState> state_;
};

}  // namespace hymn::training
