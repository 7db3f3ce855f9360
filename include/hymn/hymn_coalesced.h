// hymn's C API for several calls as one: as ProcessGroup::start_coalesced() and
// hymn::CoalescingScope (docs/coalescing.md).
#pragma once

#include "hymn/hymn.h"

#ifdef __cplusplus
extern "C" {
#endif

/// What one call gives to the collective's own function; fields that this one has no argument for
/// are ignored.
typedef struct {
  const void* sendbuf;  ///< NULL or recvbuf in a broadcast, whose one buffer is recvbuf
  void* recvbuf;
  size_t count;  ///< as in that function: of one block where there are blocks
  hymnDataType_t dtype;
  hymnOp_t op;
  int root;
} hymnCollectiveCall_t;

/// Makes `n` collectives of one kind, type, reduction and root together, as one operation with one
/// number and one record. Small ones in host memory travel together; NCCL is given all that it
/// carries in one group call, so that it launches them at once. All members give the same ones in
/// the same order: coalesced calls do not match single ones. hymnUsageError, with none of them
/// started: there are none, one of them is wrong, they are not alike, or one writes what another
/// one uses.
HYMN_API hymnResult_t hymnCoalesced(hymnCollective_t collective, const hymnCollectiveCall_t* calls,
                                    size_t n, hymnGroup_t group, hymnStream_t stream);
/// Only starts them, as one hymnWork_t that completes when all have; `calls` is copied.
HYMN_API hymnResult_t hymnICoalesced(hymnCollective_t collective, const hymnCollectiveCall_t* calls,
                                     size_t n, hymnGroup_t group, hymnStream_t stream,
                                     hymnWork_t* work);

/// What one call gives to the collective's own function over blocks of given sizes; fields that
/// this one has no argument for are ignored.
typedef struct {
  const void* sendbuf;
  void* recvbuf;
  const size_t* counts;      ///< elements of each rank's block, the same on all ranks; in an
                             ///< all-to-all sendcounts: of those that go to each rank
  const size_t* recvcounts;  ///< in an all-to-all: of those that come from each rank
  hymnDataType_t dtype;
  hymnOp_t op;
  int root;
} hymnCollectivevCall_t;

/// As hymnCoalesced, over blocks of given sizes, one after the other: several of hymnGatherv,
/// hymnScatterv, hymnAllGatherv, hymnReduceScatterv or hymnAllToAllv. hymnUsageError for other
/// collectives, too.
HYMN_API hymnResult_t hymnCoalescedv(hymnCollective_t collective,
                                     const hymnCollectivevCall_t* calls, size_t n,
                                     hymnGroup_t group, hymnStream_t stream);
/// Only starts them; `calls`, and the counts that they point to, are copied.
HYMN_API hymnResult_t hymnICoalescedv(hymnCollective_t collective,
                                      const hymnCollectivevCall_t* calls, size_t n,
                                      hymnGroup_t group, hymnStream_t stream, hymnWork_t* work);

/// What this thread calls on `group` between hymnCoalesceBegin and hymnCoalesceEnd is kept, and
/// started as one at the end: collectives of one kind, or sends and receives, with `stream` for all
/// of them. Until then calls return at once, without a result; what a starting call (hymnI…) gives
/// cannot be waited for, only freed. hymnUsageError for a second begin on a group whose scope this
/// thread has not ended.
HYMN_API hymnResult_t hymnCoalesceBegin(hymnGroup_t group, hymnStream_t stream);
/// Carries out what was kept, and waits for it, unless a stream orders it. hymnUsageError where
/// this thread has not begun, and as the calls; then nothing was sent, and the scope has ended all
/// the same.
HYMN_API hymnResult_t hymnCoalesceEnd(hymnGroup_t group);
/// Only starts it, as one hymnWork_t. Where nothing was kept it cannot be waited for, only freed.
HYMN_API hymnResult_t hymnICoalesceEnd(hymnGroup_t group, hymnWork_t* work);
/// Ends the scope, and forgets what was kept: nothing is sent.
HYMN_API hymnResult_t hymnCoalesceCancel(hymnGroup_t group);

#ifdef __cplusplus
}
#endif
