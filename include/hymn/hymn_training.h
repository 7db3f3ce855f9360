// hymn's C API for averaging the gradients of a model while they are being computed. It belongs to
// libhymn-training; docs/training.md tells how it is used, the C++ API is gradient_reducer.hpp.
//
// Errors as in hymn.h, with the text in hymnGetLastError(). Thread safety: one call at a time for
// each reducer.
#pragma once

#include "hymn/hymn.h"
#include "hymn/hymn_join.h"
#include "hymn/hymn_sparse.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- The reducer ---------------------------------------------------------------------------------

typedef struct hymnGradientReducer* hymnGradientReducer_t;
typedef struct hymnCommHook* hymnCommHook_t;
typedef struct hymnGradBucket* hymnGradBucket_t;
typedef struct hymnGradMemory* hymnGradMemory_t;

/// A parameter of a model, as hymn::training::Parameter. Start from HYMN_PARAMETER_INIT. All that
/// it points to but the values and the gradient is only read while the reducer is made.
typedef struct {
  size_t size;       ///< sizeof(hymnParameter_t)
  const char* name;  ///< for messages; the same on all ranks
  void* data;        ///< its values, in the memory of the host or of a GPU
  void* gradient;  ///< where the framework leaves its gradient, laid out as the values; unused with
                   ///< gradient_as_bucket_view
  hymnDataType_t dtype;    ///< a floating-point or complex type
  const int64_t* shape;    ///< `dimensions` numbers; NULL with 0 of them: one value
  const int64_t* strides;  ///< in elements, dense in any order of the dimensions; NULL: in rows
  size_t dimensions;
  size_t sparse_dimensions;  ///< of its gradient, which is given to hymnGradientReducerReadySparse:
                             ///< 1 for rows of an embedding; 0: it is dense
} hymnParameter_t;
#define HYMN_PARAMETER_INIT \
  {sizeof(hymnParameter_t), NULL, NULL, NULL, hymnFloat32, NULL, NULL, 0, 0}

/// As hymn::training::ReducerOptions, the same on all ranks. Start from HYMN_REDUCER_OPTIONS_INIT.
typedef struct {
  size_t size;                ///< sizeof(hymnReducerOptions_t)
  size_t first_bucket_bytes;  ///< 0: 1 MiB
  size_t bucket_bytes;        ///< 0: 25 MiB
  int gradient_as_bucket_view;
  int find_unused_parameters;
  int static_graph;
  int broadcast_parameters;        ///< < 0: ranks begin with values of their own
  hymnCommHook_t hook;             ///< NULL: averages. It may be freed when the reducer is made
  const hymnParameter_t* buffers;  ///< what a model keeps besides parameters, of any type: that of
                                   ///< the first rank becomes everybody's at the end of iterations
  size_t buffer_count;
  /// The stream that gradients of that GPU, as CUDA numbers it here, are computed on now; it must
  /// live until hymnGradientReducerFinish has returned, and after a failure until
  /// hymnGradientReducerFree has. Called in calls of the reducer, its end included. NULL, as
  /// function and as stream: the legacy default stream of that GPU.
  void* (*stream)(int gpu, void* stream_user);
  void* stream_user;
} hymnReducerOptions_t;
#define HYMN_REDUCER_OPTIONS_INIT \
  {sizeof(hymnReducerOptions_t), 0, 0, 0, 0, 0, 0, NULL, NULL, 0, NULL, NULL}

/// Compares the models of all ranks, and broadcasts the values. All members of the group make it.
/// As GradientReducer's constructor: hymnUsageError on all ranks where models or options differ, or
/// one has parameters that cannot be reduced.
HYMN_API hymnResult_t hymnGradientReducerCreate(hymnGroup_t group,
                                                const hymnParameter_t* parameters, size_t n,
                                                const hymnReducerOptions_t* options,
                                                hymnGradientReducer_t* reducer);
/// Frees it. Gradients that lie in buckets go with them, but for what hymnGradientReducerGradient
/// has been asked to keep.
HYMN_API hymnResult_t hymnGradientReducerFree(hymnGradientReducer_t reducer);

/// An iteration begins in which all parameters take part; it may be left out, but with
/// gradient_as_bucket_view.
HYMN_API hymnResult_t hymnGradientReducerPrepare(hymnGradientReducer_t reducer);
/// The same where only these `n` take part; with find_unused_parameters.
HYMN_API hymnResult_t hymnGradientReducerPrepareUsed(hymnGradientReducer_t reducer,
                                                     const size_t* used, size_t n);
/// The gradient of this parameter is there. *is_complete, which may be NULL, becomes 1 where all
/// that take part are: hymnGradientReducerFinish is next. In the first iteration of a static graph
/// nobody knows, and it is 0.
HYMN_API hymnResult_t hymnGradientReducerReady(hymnGradientReducer_t reducer, size_t parameter,
                                               int* is_complete);
/// The same of a parameter whose gradient is sparse. It stays where it is until an iteration that
/// reduces has ended.
HYMN_API hymnResult_t hymnGradientReducerReadySparse(hymnGradientReducer_t reducer,
                                                     size_t parameter, const hymnSparse_t* gradient,
                                                     int* is_complete);
/// The indices that this parameter's gradient can have entries at, from the next iteration on, in
/// any order, each once: `n` numbers, [sparse_dimensions x rows]. Then values alone travel, and the
/// average has an entry for each of them; none: indices travel again. Copied; the same on all
/// ranks.
HYMN_API hymnResult_t hymnGradientReducerSetSparseMetadata(hymnGradientReducer_t reducer,
                                                           size_t parameter, const int64_t* indices,
                                                           size_t n);
/// Ends the iteration: waits until all is reduced, and puts the averages where the gradients were.
/// On GPUs the streams wait, and not the host.
HYMN_API hymnResult_t hymnGradientReducerFinish(hymnGradientReducer_t reducer);

/// Where that parameter's gradient is; with gradient_as_bucket_view it may have moved after
/// hymnGradientReducerPrepare, with its contents. `keep` may be NULL; else *keep holds the memory
/// until it is freed, also when the reducer is gone; NULL where it is the framework's own.
HYMN_API hymnResult_t hymnGradientReducerGradient(hymnGradientReducer_t reducer, size_t parameter,
                                                  void** gradient, hymnGradMemory_t* keep);
/// Frees what that has given.
HYMN_API hymnResult_t hymnGradMemoryFree(hymnGradMemory_t keep);
/// The average of a sparse one, until the next iteration that reduces ends: each index once.
HYMN_API hymnResult_t hymnGradientReducerSparseGradient(hymnGradientReducer_t reducer,
                                                        size_t parameter, hymnSparse_t* gradient);
/// 1 where the last reduction has left that gradient as it was, because no rank used it.
HYMN_API hymnResult_t hymnGradientReducerIsUnused(hymnGradientReducer_t reducer, size_t parameter,
                                                  int* is_unused);
/// How many buckets there are, and which of them a parameter is in.
HYMN_API hymnResult_t hymnGradientReducerBucketCount(hymnGradientReducer_t reducer, size_t* n);
HYMN_API hymnResult_t hymnGradientReducerBucketOf(hymnGradientReducer_t reducer, size_t parameter,
                                                  size_t* bucket);

/// From here to hymnGradientReducerEndNoSync no iteration reduces anything: gradients add up on
/// each rank, and the first iteration after it reduces the sums. The same on all ranks.
/// hymnUsageError in the midst of an iteration, or, for the end, without a beginning.
HYMN_API hymnResult_t hymnGradientReducerBeginNoSync(hymnGradientReducer_t reducer);
HYMN_API hymnResult_t hymnGradientReducerEndNoSync(hymnGradientReducer_t reducer);

/// The reducer for hymnJoinCreate: ranks that have run out shadow its iterations, in which it calls
/// hymnJoinNotify itself. It must live as long as the join.
HYMN_API hymnResult_t hymnGradientReducerJoinable(hymnGradientReducer_t reducer,
                                                  hymnJoinable_t* joinable);

// --- Hooks: what reduces a bucket in place of the average ----------------------------------------

/// As hymn::training::all_reduce_hook, fp16_compress and bf16_compress; `inner` may be NULL for the
/// average, and may be freed afterwards.
HYMN_API hymnResult_t hymnCommHookAllReduce(hymnCommHook_t* hook);
HYMN_API hymnResult_t hymnCommHookFp16Compress(hymnCommHook_t inner, hymnCommHook_t* hook);
HYMN_API hymnResult_t hymnCommHookBf16Compress(hymnCommHook_t inner, hymnCommHook_t* hook);

/// As hymn::training::PowerSgdOptions.
typedef struct {
  size_t size;                  ///< sizeof(hymnPowerSgdOptions_t)
  size_t rank;                  ///< 0: 1
  uint64_t start_iteration;     ///< 0: 1000
  double min_compression_rate;  ///< 0: 2
  int error_feedback;           ///< < 0: off
  int warm_start;               ///< < 0: off
  uint64_t seed;
  int batched;
} hymnPowerSgdOptions_t;
#define HYMN_POWER_SGD_OPTIONS_INIT {sizeof(hymnPowerSgdOptions_t), 0, 0, 0, 0, 0, 0, 0}
/// A hook that keeps what it has learnt: for one reducer.
HYMN_API hymnResult_t hymnCommHookPowerSgd(const hymnPowerSgdOptions_t* options,
                                           hymnCommHook_t* hook);

/// Reduces a bucket, in place: starts what that takes, and gives the last of it as *work, which is
/// the reducer's then (NULL: it is all done). The bucket is there for the call. All ranks give the
/// same hook, and it makes the same collectives on all.
typedef hymnResult_t (*hymnCommHookStart_t)(hymnGradBucket_t bucket, hymnWork_t* work, void* user);
/// Called, where it is not NULL, when that work has completed, from whichever thread sees it: for
/// what is to be done with the bucket then. It makes no collectives.
typedef hymnResult_t (*hymnCommHookThen_t)(hymnGradBucket_t bucket, void* user);
/// `user` must live as long as reducers with this hook.
HYMN_API hymnResult_t hymnCommHookCreate(hymnCommHookStart_t start, hymnCommHookThen_t then,
                                         void* user, hymnCommHook_t* hook);
HYMN_API hymnResult_t hymnCommHookFree(hymnCommHook_t hook);

/// Its number, from 0 in the order in which buckets are reduced, and whether it is the last.
HYMN_API hymnResult_t hymnGradBucketIndex(hymnGradBucket_t bucket, size_t* index, int* is_last);
/// All gradients of it, one after the other. Every pointer may be NULL.
HYMN_API hymnResult_t hymnGradBucketBuffer(hymnGradBucket_t bucket, void** data, size_t* count,
                                           hymnDataType_t* dtype);
/// How many parameters it is of, of which the first `capacity` are written to `parameters`.
HYMN_API hymnResult_t hymnGradBucketParameters(hymnGradBucket_t bucket, size_t* parameters,
                                               size_t capacity, size_t* n);
/// In the memory of a GPU: the stream on which its gradients are there, as GradBucket::stream();
/// else NULL.
HYMN_API hymnResult_t hymnGradBucketStream(hymnGradBucket_t bucket, void** stream);
/// How many ranks an average is over, and the group; its handle is the bucket's.
HYMN_API hymnResult_t hymnGradBucketDivisor(hymnGradBucket_t bucket, int* divisor);
HYMN_API hymnResult_t hymnGradBucketGroup(hymnGradBucket_t bucket, hymnGroup_t* group);
/// Starts the average of its buffer over the ranks, in place.
HYMN_API hymnResult_t hymnGradBucketAverage(hymnGradBucket_t bucket, hymnWork_t* work);

#ifdef __cplusplus
}
#endif
