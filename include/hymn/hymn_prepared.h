// hymn's C API for calls that are prepared once and made many times, as hymn::PreparedCall.
#pragma once

#include "hymn/hymn_coalesced.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A call whose arguments have been checked and whose path has been chosen. It keeps its group
/// alive, but not the data: buffers must be there whenever it runs.
typedef struct hymnPrepared* hymnPrepared_t;

/// As MPI_Allreduce_init: a collective over equal blocks. Local; nothing is sent. Fails as the call
/// would before anything is sent. `stream` is that of each call; `call` is copied.
HYMN_API hymnResult_t hymnPrepareCollective(hymnCollective_t collective,
                                            const hymnCollectiveCall_t* call, hymnGroup_t group,
                                            hymnStream_t stream, hymnPrepared_t* prepared);
/// As MPI_Send_init and MPI_Recv_init.
HYMN_API hymnResult_t hymnPrepareSend(const void* buf, size_t count, hymnDataType_t dtype,
                                      int destination, int tag, hymnGroup_t group,
                                      hymnStream_t stream, hymnPrepared_t* prepared);
HYMN_API hymnResult_t hymnPrepareRecv(void* buf, size_t count, hymnDataType_t dtype, int source,
                                      int tag, hymnGroup_t group, hymnStream_t stream,
                                      hymnPrepared_t* prepared);
/// Makes the call, once more, and returns when it is complete. `status` may be NULL, and tells of a
/// receive.
HYMN_API hymnResult_t hymnPreparedRun(hymnPrepared_t prepared, hymnRecvStatus_t* status);
/// Only starts it.
HYMN_API hymnResult_t hymnPreparedStart(hymnPrepared_t prepared, hymnWork_t* work);
/// Frees the handle. What is in flight goes on.
HYMN_API hymnResult_t hymnPreparedFree(hymnPrepared_t prepared);

#ifdef __cplusplus
}
#endif
