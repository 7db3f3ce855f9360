// The vocabulary of hymn's C API: handles, codes, element types, and options. hymn.h includes this.
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct hymnWorld* hymnWorld_t;  ///< all ranks of a job
typedef struct hymnGroup* hymnGroup_t;  ///< some of them
typedef struct hymnWork* hymnWork_t;    ///< an operation in flight

/// A place in the program of an interpreter: what hymnSiteCreate has made; 0: none.
typedef uint64_t hymnSite_t;

/// A CUDA stream of this rank's GPU in whose order operations on its memory come (docs/gpu.md), or
/// NULL. Functions without an I, too, return when all is on the stream.
typedef void* hymnStream_t;

/// The result of a call. docs/errors.md says, kind by kind, what can be used after a failure.
typedef enum {
  hymnSuccess = 0,
  hymnUsageError,        ///< the call is wrong; nothing was sent
  hymnUnsupportedError,  ///< well formed, but this dtype, operation or machine cannot do it
  hymnConfigError,       ///< an environment variable or option is unknown or malformed
  hymnTimeoutError,      ///< the time given has passed
  hymnAbortedError,      ///< the group was given up earlier; the text carries the first reason
  hymnPeerError,         ///< another rank failed
  hymnNetworkError,      ///< a connection was lost or could not be made
  hymnStoreError,        ///< a key-value store failed or did not have a key in time
  hymnBackendError,      ///< MPI or another library reported a failure
  hymnResourceError,     ///< memory, descriptors or the like ran out
  hymnInternalError      ///< a fault in hymn itself
} hymnResult_t;

/// The type of one element. docs/dtypes.md says which reductions each one has.
typedef enum {
  hymnBool = 0,  ///< one byte; any non-zero byte is true, results are 0 or 1
  hymnInt8,
  hymnUint8,
  hymnInt32,
  hymnUint32,
  hymnInt64,
  hymnUint64,
  hymnFloat16,
  hymnBfloat16,
  hymnFloat32,
  hymnFloat64,
  hymnComplex64,   ///< two float32
  hymnComplex128,  ///< two float64
  hymnFloat8e4m3,  ///< moved, never reduced
  hymnFloat8e5m2,  ///< moved, never reduced
  hymnInt16,
  hymnUint16,
  hymnValueBytes = 1 << 24  ///< HYMN_VALUE
} hymnDataType_t;

/// The type of values of so many bytes, 1 to 16777215: `HYMN_VALUE(sizeof(struct particle))`. They
/// are moved, and reduced by what hymnOpCreate has made.
#define HYMN_VALUE(bytes) ((hymnDataType_t)(hymnValueBytes + (int)(bytes)))

/// What a reduction computes: one of the constants below, or a value of hymnOpPremulSum or
/// hymnOpCreate.
typedef uint64_t hymnOp_t;
enum {
  hymnSum = 0,
  hymnProd,
  hymnMin,
  hymnMax,
  hymnBand,
  hymnBor,
  hymnBxor,
  hymnAvg,
  hymnLand,
  hymnLor,
  hymnLxor
};

/// What hymnOpCreate makes an operation of: inout[i] = inout[i] op in[i] for i < count, where
/// `inout` comes from lower ranks. It is associative, and makes no calls of hymn's or MPI's. Values
/// may lie at any address: copy them (memcpy) where their type needs to be aligned.
typedef void (*hymnOpFunction_t)(void* inout, const void* in, size_t count, void* context);

/// A collective, for calls that make any of several.
typedef enum {
  hymnCollectiveAllReduce = 0,
  hymnCollectiveBroadcast,
  hymnCollectiveReduce,
  hymnCollectiveGather,
  hymnCollectiveScatter,
  hymnCollectiveAllGather,
  hymnCollectiveReduceScatter,
  hymnCollectiveAllToAll,
  hymnCollectiveBarrier,
  hymnCollectiveScan,
  hymnCollectiveExscan
} hymnCollective_t;

/// One block of a list. As with struct iovec, what is sent from it is not written to.
typedef struct {
  void* data;
  size_t count;  ///< elements
} hymnBlock_t;

/// What a receive has received.
typedef struct {
  int source;    ///< rank of the sender
  int tag;       ///< as it was sent
  size_t count;  ///< elements received; may be fewer than the buffer holds
} hymnRecvStatus_t;

#define HYMN_ANY_SOURCE (-1)
#define HYMN_NO_COLOR (-1)
/// As MPI_PROC_NULL: nobody. What hymnSendrecv, hymnISendrecv, hymnSendrecvReplace and hymnIBatch
/// are to send to it, or to receive from it, is left out; other calls refuse it.
#define HYMN_NO_RANK (-2)
#define HYMN_MAX_TAG 16383

/// Times in options and in hymnGroupSetTimeout: a negative number waits for ever; in options 0
/// takes the default of the level above (group, world, HYMN_TIMEOUT). In a group that is *made*
/// with none, blocking calls may be MPI's own: all ranks then use the same form of a call
/// (blocking, or with an I). docs/timeouts.md says more.
#define HYMN_TIMEOUT_DEFAULT 0.0
#define HYMN_TIMEOUT_NONE (-1.0)

/// How far the bits of reductions stay the same, as HYMN_REPRODUCIBLE (docs/reproducibility.md).
typedef enum {
  hymnReproducibleDefault = 0,  ///< a group's: as the world; a world's: as HYMN_REPRODUCIBLE
  hymnReproducibleRanks,
  hymnReproducibleRuns,
  hymnReproduciblePlacement,
  hymnReproducibleSize
} hymnReproducibility_t;

/// Which threads may call MPI, as MPI_THREAD_SINGLE and so on: the least level that it is asked for
/// where hymn initialises it, and that it must have granted (docs/threads.md).
typedef enum {
  hymnThreadDefault = 0,  ///< as HYMN_MPI_THREAD_LEVEL, or else what progress_thread needs
  hymnThreadSingle,
  hymnThreadFunneled,
  hymnThreadSerialized,  ///< several threads that use groups
  hymnThreadMultiple     ///< groups that are made by several threads, or in the background
} hymnThreadLevel_t;

/// Options grow by new fields at their end: start from HYMN_WORLD_OPTIONS_INIT. A null pointer in
/// the place of options, like a field that is 0 or NULL, means the default.
typedef struct {
  size_t size;             ///< sizeof(hymnWorldOptions_t)
  double timeout_seconds;  ///< for all groups
  int progress_thread;     ///< > 0 on, < 0 off, 0 as HYMN_PROGRESS_THREAD
  const char* path;        ///< as HYMN_PATH
  const char* algo;        ///< as HYMN_ALGO
  int reproducibility;     ///< a hymnReproducibility_t
  int thread_level;        ///< a hymnThreadLevel_t
} hymnWorldOptions_t;
#define HYMN_WORLD_OPTIONS_INIT                                     \
  {sizeof(hymnWorldOptions_t), HYMN_TIMEOUT_DEFAULT, 0, NULL, NULL, \
   hymnReproducibleDefault,    hymnThreadDefault}

/// When the NCCL communicator of a group is created, as HYMN_NCCL_INIT (docs/gpu.md).
typedef enum {
  hymnNcclInitDefault = 0,  ///< as HYMN_NCCL_INIT
  hymnNcclInitLazy,         ///< at the first use of the group on the memory of GPUs
  hymnNcclInitEager,        ///< with the group, which waits for it
  hymnNcclInitBackground    ///< begun with the group, and waited for at the first use
} hymnNcclInit_t;

typedef struct {
  size_t size;              ///< sizeof(hymnGroupOptions_t)
  double timeout_seconds;   ///< for every operation of the group
  const char* description;  ///< shown in messages
  const char* path;         ///< as HYMN_PATH, for this group
  const char* algo;         ///< as HYMN_ALGO, for this group
  int reproducibility;      ///< a hymnReproducibility_t
  // For the memory of GPUs, the same on all members but for high_priority_stream and gpu;
  // docs/gpu.md tells what each one does.
  int nccl_init;         ///< a hymnNcclInit_t
  int nccl_min_ctas;     ///< 1 to 64
  int nccl_max_ctas;     ///< 1 to 64; not below nccl_min_ctas
  int nccl_cga_size;     ///< 1 to 8; < 0: no clusters, which NCCL calls 0
  const char* nccl_net;  ///< "Socket", "IB", or that of a plugin
  int nccl_blocking;     ///< > 0 NCCL's calls may block, < 0 they do not, 0 as HYMN_NCCL_BLOCKING
  int high_priority_stream;    ///< > 0 yes, < 0 no, 0 as HYMN_STREAM_PRIORITY
  int nccl_reduce_in_float32;  ///< > 0 float16 and bfloat16 are reduced in float32 and rounded
                               ///< once, < 0 as NCCL does, 0 as HYMN_NCCL_REDUCE_IN_FLOAT32
  int local_sync;              ///< not 0: only the members make the group; ranks outside get NULL
  const char* tag;  ///< the same ranks with the same tag are the same group; NULL, "": a new one
  double nccl_timeout_seconds;  ///< of no effect but a warning: give timeout_seconds
  const int* gpu;  ///< which of the GPUs that this process sees the group works on, as CUDA numbers
                   ///< them here; NULL: the rank's own (hymnWorldGpu). Members may name different
                   ///< ones; hymnUsageError on all where one is not there
} hymnGroupOptions_t;
#define HYMN_GROUP_OPTIONS_INIT \
  {sizeof(hymnGroupOptions_t),  \
   HYMN_TIMEOUT_DEFAULT,        \
   NULL,                        \
   NULL,                        \
   NULL,                        \
   hymnReproducibleDefault,     \
   hymnNcclInitDefault,         \
   0,                           \
   0,                           \
   0,                           \
   NULL,                        \
   0,                           \
   0,                           \
   0,                           \
   0,                           \
   NULL,                        \
   HYMN_TIMEOUT_DEFAULT,        \
   NULL}
