// hymn's C API for several collectives as one: as ProcessGroup::start_coalesced().
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

/// Makes `n` collectives of one kind together, which count and are recorded one by one. NCCL is
/// given all that it carries in one group call, so that it launches them at once. All members give
/// the same ones in the same order: coalesced calls do not match single ones. hymnUsageError, with
/// none of them started: there are none, or one of them is wrong.
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

#ifdef __cplusplus
}
#endif
