// hymn's C API (C11). docs/c-api.md shows how it is used; the C++ API is hymn.hpp.
//
// Every function returns hymnSuccess or the kind of its failure; hymnGetLastError() then has the
// text. Counts are numbers of elements, times are seconds, and every rank that is given or returned
// is a *global* rank (the rank in the world), except where a name says "group_rank".
//
// Thread safety: a hymnWorld_t is used by one thread at a time. Groups and works are used as the
// level of thread support that MPI granted allows (docs/threads.md); with ranks as threads, from
// any thread.
#pragma once

#include "hymn/export.hpp"  // preprocessor only: plain C too
#include "hymn/hymn_types.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- Errors and version ------------------------------------------------------------------------

/// The text of the last failed call on the calling thread, "" when none has failed. It names the
/// function, and where they matter the rank, the group, the operation and the remedy. Valid until
/// the next failure on this thread; a success leaves it as it is.
HYMN_API const char* hymnGetLastError(void);
/// What a code means, in a few words; never NULL.
HYMN_API const char* hymnGetErrorString(hymnResult_t code);
/// "0.1.0"
HYMN_API const char* hymnGetVersion(void);

// --- The calling thread: what it says of the calls that it is going to make --------------------

/// A place in a program that is not compiled, such as ("train.py", 42). The same place gives the
/// same one, which is never freed. There is room for 256 in a process, and for 119 letters of each
/// path, of which the end is kept; where there is none left *site is 0. hymnUsageError: no file, or
/// a line below 1.
HYMN_API hymnResult_t hymnSiteCreate(const char* file, int line, hymnSite_t* site);
/// Calls of this thread, but those of meshes and joins, come from there, from now on: errors, dumps
/// and other ranks name the place where they name the line of a C program. 0: from where they
/// return to, as before. hymnUsageError: what hymnSiteCreate has not made.
HYMN_API hymnResult_t hymnThreadSetSite(hymnSite_t site);
/// For compiled bindings, to whose own functions all calls would otherwise be attributed: calls of
/// this thread, as above, are attributed to `address`, a return address such as
/// __builtin_return_address(0), from now on. Pass NULL afterwards to restore the default. It does
/// not nest. A site of hymnThreadSetSite takes precedence over it. Never fails.
HYMN_API void hymnThreadSetCaller(const void* address);
/// The limit of the operations that this thread starts from now on, whichever group they belong to,
/// but those of meshes and joins; HYMN_TIMEOUT_DEFAULT: their group's, as before. What is gathered
/// by a coalescing scope has the limit of the end of the scope; a prepared call that of its
/// preparation.
HYMN_API hymnResult_t hymnThreadSetTimeout(double seconds);

// --- World: every rank makes it and ends it at the same point of its program -------------------

/// From MPI_COMM_WORLD. MPI is initialised if nobody has done so, and only then finalized by hymn,
/// at the end of the process. hymnConfigError: a bad HYMN_* variable, or a launcher that started
/// more ranks than MPI can see. hymn_mpi.h makes a world from a communicator instead.
HYMN_API hymnResult_t hymnInit(hymnWorld_t* world, const hymnWorldOptions_t* options);
/// Ends all groups of the world, then the world, and frees the handle even when an error is
/// returned, but where it is refused (in a callback) and may be tried again. Group handles stay to
/// be freed, with any use of them a hymnUsageError. Another world may follow.
HYMN_API hymnResult_t hymnFinalize(hymnWorld_t world);

/// One rank of hymnThreadsRun. Anything but hymnSuccess says that this rank has failed.
typedef hymnResult_t (*hymnRankMain_t)(hymnWorld_t world, void* user);
/// Ranks as threads: calls rank_main(world, user) on `ranks` threads of this process, each with its
/// own world, which ends with it (hymnFinalize is refused). Returns when all have ended: the code
/// of the lowest rank that failed, with all failures in the text. A rank that fails frees the
/// others, whose operations end with hymnAbortedError.
HYMN_API hymnResult_t hymnThreadsRun(int ranks, hymnRankMain_t rank_main, void* user,
                                     const hymnWorldOptions_t* options);

/// The world of the rank whose thread this is: for callbacks that are given none. A rank's thread
/// is the one on which hymnThreadsRun has called rank_main. hymnUsageError on any other.
HYMN_API hymnResult_t hymnWorldCurrent(hymnWorld_t* world);

/// This rank, and the number of ranks.
HYMN_API hymnResult_t hymnWorldRank(hymnWorld_t world, int* rank);
HYMN_API hymnResult_t hymnWorldSize(hymnWorld_t world, int* size);
/// This rank's place among the ranks of its host, how many those are, and the number of hosts.
HYMN_API hymnResult_t hymnWorldLocalRank(hymnWorld_t world, int* local_rank);
HYMN_API hymnResult_t hymnWorldLocalSize(hymnWorld_t world, int* local_size);
HYMN_API hymnResult_t hymnWorldHostCount(hymnWorld_t world, int* host_count);
/// This rank's GPU, as CUDA numbers GPUs in this process (for cudaSetDevice); -1: it has none.
HYMN_API hymnResult_t hymnWorldGpu(hymnWorld_t world, int* gpu);

// --- Groups ------------------------------------------------------------------------------------

/// The group of all ranks. The handle belongs to the world and ends with it: it is not freed.
HYMN_API hymnResult_t hymnWorldGroup(hymnWorld_t world, hymnGroup_t* group);
/// A group of `n` ranks (they are sorted). Every rank of the world calls it with the same list, in
/// the same order as other calls of it; ranks outside the list get a group whose calls warn, do
/// nothing and succeed. The same ranks twice give two independent groups. hymnUsageError: an empty
/// list, a rank twice or out of range, other arguments on other members; hymnTimeoutError: a member
/// did not come.
///
/// With options->local_sync only the members call it, and wait for each other: in any order
/// relative to other groups in which no circle of ranks waits for each other; *group is NULL on a
/// rank outside. With options->tag, too, only the members wait for each other, and what they get is
/// the group of these ranks with this tag, if there is one.
HYMN_API hymnResult_t hymnGroupCreate(hymnWorld_t world, const int* ranks, size_t n,
                                      const hymnGroupOptions_t* options, hymnGroup_t* group);
/// The group with this tag ("": none was given, which finds only that of all ranks) and these ranks
/// that lives on this rank; NULL if there is none. Local.
HYMN_API hymnResult_t hymnGroupFind(hymnWorld_t world, const char* tag, const int* ranks, size_t n,
                                    hymnGroup_t* group);
/// The ranks are groups of `group_size` ranks one after the other: the one that this rank is in, as
/// hymnGroupFind, or else made by its members alone, with this tag. hymnUsageError: the ranks are
/// no such groups, this rank is in none, or there is none and the tag is empty.
HYMN_API hymnResult_t hymnGroupFindOrCreate(hymnWorld_t world, const char* tag, const int* ranks,
                                            size_t n, size_t group_size,
                                            const hymnGroupOptions_t* options, hymnGroup_t* group);
/// As MPI_Comm_split: the members that give the same color (0 or more) become a group, in the order
/// of their keys, those with equal keys in their order here. Every member calls it, as a collective
/// of this group. *split is NULL for who gives HYMN_NO_COLOR, and on a rank outside.
/// hymnUsageError: another color below 0.
HYMN_API hymnResult_t hymnGroupSplit(hymnGroup_t group, int color, int key,
                                     const hymnGroupOptions_t* options, hymnGroup_t* split);
/// The tag of the group, which stays with the handle: "" for that of all ranks; one that was made
/// for it where none was given.
HYMN_API hymnResult_t hymnGroupTag(hymnGroup_t group, const char** tag);
/// Waits for this rank's pending work within the group's timeout, gives up what is left, and ends
/// the group. Only this rank's part, so ranks may do it in any order. Twice is fine.
HYMN_API hymnResult_t hymnGroupDestroy(hymnGroup_t group);
/// Gives the group up on all its ranks, from any thread: what is in flight, and later calls, end
/// with hymnAbortedError, which carries the reason. As ProcessGroup::abort().
HYMN_API hymnResult_t hymnGroupAbort(hymnGroup_t group, const char* reason);
/// Frees the handle, even when an error is returned other than hymnUsageError: the group of all
/// ranks is refused, and keeps it. The group itself ends first if it has not been destroyed, as
/// hymnGroupDestroy, but for one that was found, or made with a tag, which others may have, too.
HYMN_API hymnResult_t hymnGroupFree(hymnGroup_t group);

/// This rank's place in the group, or -1 for a rank outside; and the number of members.
HYMN_API hymnResult_t hymnGroupRank(hymnGroup_t group, int* group_rank);
HYMN_API hymnResult_t hymnGroupSize(hymnGroup_t group, int* size);
/// From a place in the group to the rank in the world, and back. hymnUsageError ("… not part of
/// group") when there is no such member.
HYMN_API hymnResult_t hymnGroupToGlobal(hymnGroup_t group, int group_rank, int* rank);
HYMN_API hymnResult_t hymnGroupFromGlobal(hymnGroup_t group, int rank, int* group_rank);
/// The limit for operations that start from now on: > 0 seconds, or negative for none. What is got
/// is HYMN_TIMEOUT_NONE when there is none.
HYMN_API hymnResult_t hymnGroupSetTimeout(hymnGroup_t group, double seconds);
HYMN_API hymnResult_t hymnGroupGetTimeout(hymnGroup_t group, double* seconds);
/// How many operations that this rank has started on the group went by `path` ("cuda_p2p"; NULL:
/// any) and `algorithm` ("all_reduce_one_shot"; NULL: any). 0 for names that the group does not
/// have, and on a rank outside.
HYMN_API hymnResult_t hymnGroupUses(hymnGroup_t group, const char* path, const char* algorithm,
                                    uint64_t* uses);

// --- Work --------------------------------------------------------------------------------------

/// Moves the operation forward; *done is 1 when it has completed, successfully or not (see
/// hymnWorkError).
HYMN_API hymnResult_t hymnWorkTest(hymnWork_t work, int* done);
/// Waits until it has completed and returns its error if it failed. When the operation's own limit
/// passes: hymnTimeoutError, and a collective's group is given up (docs/errors.md).
HYMN_API hymnResult_t hymnWorkWait(hymnWork_t work);
/// As hymnWorkWait, but for at most `seconds` (negative: for ever) whatever the operation's own
/// limit. When they pass: hymnTimeoutError; the operation stays in flight and can be waited for
/// again.
HYMN_API hymnResult_t hymnWorkWaitTimeout(hymnWork_t work, double seconds);
/// As MPI_Waitall: waits until all `n` have completed, NULLs left out, and then returns the error
/// of the first, in their order, that has failed. `seconds`: HYMN_TIMEOUT_DEFAULT lets each take as
/// long as its own limit; otherwise as hymnWorkWaitTimeout, for all together. Frees no handle.
HYMN_API hymnResult_t hymnWaitAll(hymnWork_t* works, size_t n, double seconds);
/// As MPI_Waitany: waits until one of the `n` has completed, successfully or not (hymnWorkError),
/// and gives its index: the least, where several have. NULLs are left out: set a handle to NULL,
/// once it is freed, or the next call gives it again. hymnUsageError where all are NULL. `seconds`
/// as above.
HYMN_API hymnResult_t hymnWaitAny(hymnWork_t* works, size_t n, double seconds, size_t* index);
/// What is enqueued on the stream from now on waits for the operation. As Work::wait_on().
HYMN_API hymnResult_t hymnWorkWaitOn(hymnWork_t work, hymnStream_t stream);
/// *error is why the operation failed, with the text in hymnGetLastError; hymnSuccess while it is
/// in flight and after it has succeeded. The call itself succeeds in all these cases.
HYMN_API hymnResult_t hymnWorkError(hymnWork_t work, hymnResult_t* error);
/// What a completed receive has received; of a batch, its receive number `index` counted from 0 in
/// the order given (a single receive has index 0).
HYMN_API hymnResult_t hymnWorkStatus(hymnWork_t work, size_t index, hymnRecvStatus_t* status);
/// Frees the handle. An operation in flight goes on, and its buffers must stay valid until it is
/// over.
HYMN_API hymnResult_t hymnWorkFree(hymnWork_t work);

// --- Collectives -------------------------------------------------------------------------------
//
// Every member of the group calls the same collectives in the same order. A call returns when this
// rank's result is there. Its twin, with an I in its name, only starts the operation and gives a
// hymnWork_t to free with hymnWorkFree: until it has completed the buffers must stay valid and
// untouched, but counts and lists of blocks are copied. On an error *work is NULL.
//
// In place: sendbuf and recvbuf may be the same pointer where both hold the same number of
// elements; where one holds a block for each rank, the other may be this rank's own block in it.
// Buffers that overlap in any other way are refused, like every other fault of a call, before
// anything is sent. A pointer to no elements may be NULL.
//
// Three forms differ in how the blocks of the ranks lie: equal blocks one after the other
// (hymnGather), blocks of given sizes one after the other (hymnGatherv; zeros are allowed), and
// blocks of given sizes anywhere (hymnCollectiveList). All ranks of a call use the same form.
// counts[i] and block i of a list belong to group rank i; both have as many entries as the group
// has members.

/// The sum of the inputs, each multiplied first by the factor that its *own* rank gives. The value
/// holds the factor itself: nothing has to be freed.
HYMN_API hymnOp_t hymnOpPremulSum(double factor);
/// As MPI_Op_create: an operation of the program's own on values of `value_bytes` bytes, of any
/// type of that size (HYMN_VALUE, hymnFloat64, …). With `commutative` not 0 it may be applied in
/// any order, else in that of the group's ranks. All ranks of a call give the same one, in host
/// memory; docs/values.md tells more. It is freed by hymnOpFree, when all operations with it have
/// ended.
HYMN_API hymnResult_t hymnOpCreate(hymnOpFunction_t function, void* context, size_t value_bytes,
                                   int commutative, hymnOp_t* op);
/// *op becomes hymnSum.
HYMN_API hymnResult_t hymnOpFree(hymnOp_t* op);
/// As MPI_MINLOC and MPI_MAXLOC: operations on values of `struct { T value; int64_t index; }`,
/// where T is the type that `dtype` names: an integer, hymnFloat32 or hymnFloat64. The least
/// (greatest) value comes with its index; of equal ones the lowest index; and a NaN before all
/// numbers. They are not freed.
HYMN_API hymnResult_t hymnOpMinLoc(hymnDataType_t dtype, hymnOp_t* op);
HYMN_API hymnResult_t hymnOpMaxLoc(hymnDataType_t dtype, hymnOp_t* op);

/// Reduces the ranks' inputs element by element; every rank gets the same bits.
HYMN_API hymnResult_t hymnAllReduce(const void* sendbuf, void* recvbuf, size_t count,
                                    hymnDataType_t dtype, hymnOp_t op, hymnGroup_t group,
                                    hymnStream_t stream);
HYMN_API hymnResult_t hymnIAllReduce(const void* sendbuf, void* recvbuf, size_t count,
                                     hymnDataType_t dtype, hymnOp_t op, hymnGroup_t group,
                                     hymnStream_t stream, hymnWork_t* work);

/// Copies the root's buffer into everybody's.
HYMN_API hymnResult_t hymnBroadcast(void* buf, size_t count, hymnDataType_t dtype, int root,
                                    hymnGroup_t group, hymnStream_t stream);
HYMN_API hymnResult_t hymnIBroadcast(void* buf, size_t count, hymnDataType_t dtype, int root,
                                     hymnGroup_t group, hymnStream_t stream, hymnWork_t* work);

/// As hymnAllReduce, with the result on the root only; recvbuf is ignored elsewhere.
HYMN_API hymnResult_t hymnReduce(const void* sendbuf, void* recvbuf, size_t count,
                                 hymnDataType_t dtype, hymnOp_t op, int root, hymnGroup_t group,
                                 hymnStream_t stream);
HYMN_API hymnResult_t hymnIReduce(const void* sendbuf, void* recvbuf, size_t count,
                                  hymnDataType_t dtype, hymnOp_t op, int root, hymnGroup_t group,
                                  hymnStream_t stream, hymnWork_t* work);

/// The root's block i receives rank i's `count` elements. recvbuf is ignored elsewhere.
HYMN_API hymnResult_t hymnGather(const void* sendbuf, void* recvbuf, size_t count,
                                 hymnDataType_t dtype, int root, hymnGroup_t group,
                                 hymnStream_t stream);
HYMN_API hymnResult_t hymnIGather(const void* sendbuf, void* recvbuf, size_t count,
                                  hymnDataType_t dtype, int root, hymnGroup_t group,
                                  hymnStream_t stream, hymnWork_t* work);
/// Rank i contributes counts[i] elements; counts are the same on all ranks.
HYMN_API hymnResult_t hymnGatherv(const void* sendbuf, void* recvbuf, const size_t* counts,
                                  hymnDataType_t dtype, int root, hymnGroup_t group,
                                  hymnStream_t stream);
HYMN_API hymnResult_t hymnIGatherv(const void* sendbuf, void* recvbuf, const size_t* counts,
                                   hymnDataType_t dtype, int root, hymnGroup_t group,
                                   hymnStream_t stream, hymnWork_t* work);

/// Rank i receives the root's block i of `count` elements. sendbuf is ignored elsewhere.
HYMN_API hymnResult_t hymnScatter(const void* sendbuf, void* recvbuf, size_t count,
                                  hymnDataType_t dtype, int root, hymnGroup_t group,
                                  hymnStream_t stream);
HYMN_API hymnResult_t hymnIScatter(const void* sendbuf, void* recvbuf, size_t count,
                                   hymnDataType_t dtype, int root, hymnGroup_t group,
                                   hymnStream_t stream, hymnWork_t* work);
/// Rank i receives counts[i] elements; counts are the same on all ranks.
HYMN_API hymnResult_t hymnScatterv(const void* sendbuf, const size_t* counts, void* recvbuf,
                                   hymnDataType_t dtype, int root, hymnGroup_t group,
                                   hymnStream_t stream);
HYMN_API hymnResult_t hymnIScatterv(const void* sendbuf, const size_t* counts, void* recvbuf,
                                    hymnDataType_t dtype, int root, hymnGroup_t group,
                                    hymnStream_t stream, hymnWork_t* work);

/// Everybody's block i receives rank i's `count` elements.
HYMN_API hymnResult_t hymnAllGather(const void* sendbuf, void* recvbuf, size_t count,
                                    hymnDataType_t dtype, hymnGroup_t group, hymnStream_t stream);
HYMN_API hymnResult_t hymnIAllGather(const void* sendbuf, void* recvbuf, size_t count,
                                     hymnDataType_t dtype, hymnGroup_t group, hymnStream_t stream,
                                     hymnWork_t* work);
/// Rank i contributes counts[i] elements; counts are the same on all ranks.
HYMN_API hymnResult_t hymnAllGatherv(const void* sendbuf, void* recvbuf, const size_t* counts,
                                     hymnDataType_t dtype, hymnGroup_t group, hymnStream_t stream);
HYMN_API hymnResult_t hymnIAllGatherv(const void* sendbuf, void* recvbuf, const size_t* counts,
                                      hymnDataType_t dtype, hymnGroup_t group, hymnStream_t stream,
                                      hymnWork_t* work);

/// Rank i receives the reduction of everybody's block i, of `count` elements.
HYMN_API hymnResult_t hymnReduceScatter(const void* sendbuf, void* recvbuf, size_t count,
                                        hymnDataType_t dtype, hymnOp_t op, hymnGroup_t group,
                                        hymnStream_t stream);
HYMN_API hymnResult_t hymnIReduceScatter(const void* sendbuf, void* recvbuf, size_t count,
                                         hymnDataType_t dtype, hymnOp_t op, hymnGroup_t group,
                                         hymnStream_t stream, hymnWork_t* work);
/// Rank i receives counts[i] elements; counts are the same on all ranks.
HYMN_API hymnResult_t hymnReduceScatterv(const void* sendbuf, const size_t* counts, void* recvbuf,
                                         hymnDataType_t dtype, hymnOp_t op, hymnGroup_t group,
                                         hymnStream_t stream);
HYMN_API hymnResult_t hymnIReduceScatterv(const void* sendbuf, const size_t* counts, void* recvbuf,
                                          hymnDataType_t dtype, hymnOp_t op, hymnGroup_t group,
                                          hymnStream_t stream, hymnWork_t* work);

/// The reduction of the inputs of the ranks up to and with each one, none of which changes its
/// place. Where steps round, how they are put in brackets depends on the path, except in groups
/// with the reproducibility "placement" or "size" (docs/reproducibility.md). hymnAvg is refused.
HYMN_API hymnResult_t hymnScan(const void* sendbuf, void* recvbuf, size_t count,
                               hymnDataType_t dtype, hymnOp_t op, hymnGroup_t group,
                               hymnStream_t stream);
HYMN_API hymnResult_t hymnIScan(const void* sendbuf, void* recvbuf, size_t count,
                                hymnDataType_t dtype, hymnOp_t op, hymnGroup_t group,
                                hymnStream_t stream, hymnWork_t* work);
/// As hymnScan, but without a rank's own input. recvbuf of group rank 0 is not written to.
HYMN_API hymnResult_t hymnExscan(const void* sendbuf, void* recvbuf, size_t count,
                                 hymnDataType_t dtype, hymnOp_t op, hymnGroup_t group,
                                 hymnStream_t stream);
HYMN_API hymnResult_t hymnIExscan(const void* sendbuf, void* recvbuf, size_t count,
                                  hymnDataType_t dtype, hymnOp_t op, hymnGroup_t group,
                                  hymnStream_t stream, hymnWork_t* work);

/// Rank j's block i receives rank i's block j, all of `count` elements.
HYMN_API hymnResult_t hymnAllToAll(const void* sendbuf, void* recvbuf, size_t count,
                                   hymnDataType_t dtype, hymnGroup_t group, hymnStream_t stream);
HYMN_API hymnResult_t hymnIAllToAll(const void* sendbuf, void* recvbuf, size_t count,
                                    hymnDataType_t dtype, hymnGroup_t group, hymnStream_t stream,
                                    hymnWork_t* work);
/// sendcounts[j] elements go to rank j, recvcounts[i] come from rank i.
HYMN_API hymnResult_t hymnAllToAllv(const void* sendbuf, const size_t* sendcounts, void* recvbuf,
                                    const size_t* recvcounts, hymnDataType_t dtype,
                                    hymnGroup_t group, hymnStream_t stream);
HYMN_API hymnResult_t hymnIAllToAllv(const void* sendbuf, const size_t* sendcounts, void* recvbuf,
                                     const size_t* recvcounts, hymnDataType_t dtype,
                                     hymnGroup_t group, hymnStream_t stream, hymnWork_t* work);

/// A gather, scatter, all-gather, reduce-scatter or all-to-all with a buffer for each rank. A side
/// that concerns all ranks is a list of their blocks, as the root's recvs in a gather; the other
/// one points to this rank's own block. What the collective has no use for on this rank is ignored:
/// the root, the op, and on others than the root what only the root has.
HYMN_API hymnResult_t hymnCollectiveList(hymnCollective_t collective, const hymnBlock_t* sends,
                                         const hymnBlock_t* recvs, hymnDataType_t dtype,
                                         hymnOp_t op, int root, hymnGroup_t group,
                                         hymnStream_t stream);
HYMN_API hymnResult_t hymnICollectiveList(hymnCollective_t collective, const hymnBlock_t* sends,
                                          const hymnBlock_t* recvs, hymnDataType_t dtype,
                                          hymnOp_t op, int root, hymnGroup_t group,
                                          hymnStream_t stream, hymnWork_t* work);

/// Returns when every member has called it.
HYMN_API hymnResult_t hymnBarrier(hymnGroup_t group, hymnStream_t stream);
HYMN_API hymnResult_t hymnIBarrier(hymnGroup_t group, hymnStream_t stream, hymnWork_t* work);
/// A barrier that all members' GPUs take part in: before it is over, these have come to the end of
/// what their default stream (or `stream`) held at the call. The ids are those of the rank's own
/// GPU (hymnWorldGpu), one at most; n = 0: hymnBarrier. All members give ids, or none does.
/// hymnUsageError: any other GPU, or no list
/// ("Invalid function argument"); hymnUnsupportedError: the group works on no GPU.
HYMN_API hymnResult_t hymnBarrierOnDevices(const int* device_ids, size_t n, hymnGroup_t group,
                                           hymnStream_t stream);
HYMN_API hymnResult_t hymnIBarrierOnDevices(const int* device_ids, size_t n, hymnGroup_t group,
                                            hymnStream_t stream, hymnWork_t* work);

// --- Point to point: between two members, matched by sender and tag (0 to HYMN_MAX_TAG) --------

/// Sends to another member; to itself a rank sends in a batch alone (hymnIBatch).
HYMN_API hymnResult_t hymnSend(const void* buf, size_t count, hymnDataType_t dtype, int destination,
                               int tag, hymnGroup_t group, hymnStream_t stream);
HYMN_API hymnResult_t hymnISend(const void* buf, size_t count, hymnDataType_t dtype,
                                int destination, int tag, hymnGroup_t group, hymnStream_t stream,
                                hymnWork_t* work);
/// Receives at most `count` elements from `source`, or from HYMN_ANY_SOURCE; a longer message is an
/// error. `status` may be NULL.
HYMN_API hymnResult_t hymnRecv(void* buf, size_t count, hymnDataType_t dtype, int source, int tag,
                               hymnGroup_t group, hymnStream_t stream, hymnRecvStatus_t* status);
HYMN_API hymnResult_t hymnIRecv(void* buf, size_t count, hymnDataType_t dtype, int source, int tag,
                                hymnGroup_t group, hymnStream_t stream, hymnWork_t* work);

/// One send or receive of a batch: exactly one of the two buffers is given.
typedef struct {
  const void* sendbuf;
  void* recvbuf;
  size_t count;
  hymnDataType_t dtype;
  int peer;
  int tag;
} hymnP2POp_t;
/// Starts all `n` of them together, as one Work that completes when all have. A rank may send to
/// itself here: the batch then holds the send and the receive from the own rank, matched by tag and
/// order, and the one is copied to the other. hymnUsageError, before anything is sent: one of them
/// has no other (a receive from HYMN_ANY_SOURCE takes none), is longer than its buffer, or overlaps
/// it. One whose peer is HYMN_NO_RANK is left out.
HYMN_API hymnResult_t hymnIBatch(const hymnP2POp_t* ops, size_t n, hymnGroup_t group,
                                 hymnStream_t stream, hymnWork_t* work);

/// As MPI_Sendrecv: sends and receives as one batch, so that neither waits for the other. The rank
/// itself may be both peers, with one tag, and HYMN_NO_RANK either, to which nothing is sent, and
/// from which nothing comes: the source is that then, and the count 0. hymnUsageError: the buffers
/// overlap. `status` may be NULL, and tells nothing on a stream.
HYMN_API hymnResult_t hymnSendrecv(const void* sendbuf, size_t sendcount, hymnDataType_t sendtype,
                                   int destination, int sendtag, void* recvbuf, size_t recvcount,
                                   hymnDataType_t recvtype, int source, int recvtag,
                                   hymnGroup_t group, hymnStream_t stream,
                                   hymnRecvStatus_t* status);
HYMN_API hymnResult_t hymnISendrecv(const void* sendbuf, size_t sendcount, hymnDataType_t sendtype,
                                    int destination, int sendtag, void* recvbuf, size_t recvcount,
                                    hymnDataType_t recvtype, int source, int recvtag,
                                    hymnGroup_t group, hymnStream_t stream, hymnWork_t* work);
/// As MPI_Sendrecv_replace: what comes takes the place of what is sent, of which a copy is made.
/// hymnUnsupportedError in the memory of a GPU, and for elements whose layout MPI alone knows.
HYMN_API hymnResult_t hymnSendrecvReplace(void* buf, size_t count, hymnDataType_t dtype,
                                          int destination, int sendtag, int source, int recvtag,
                                          hymnGroup_t group, hymnStream_t stream,
                                          hymnRecvStatus_t* status);

/// A message that waits to be received.
typedef struct {
  int source;
  int tag;
  size_t bytes;
} hymnMessageInfo_t;
/// As MPI_Probe: waits until a message has come that hymnRecv from `source` (or HYMN_ANY_SOURCE)
/// with this tag would take, and tells of it. It is left there. As ProcessGroup::probe().
HYMN_API hymnResult_t hymnProbe(int source, int tag, hymnGroup_t group, hymnMessageInfo_t* info);
/// As MPI_Iprobe: the same without waiting; *found is 0, and *info as it was, where none has come.
HYMN_API hymnResult_t hymnIprobe(int source, int tag, hymnGroup_t group, int* found,
                                 hymnMessageInfo_t* info);

#ifdef __cplusplus
}
#endif
