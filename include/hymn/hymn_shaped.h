// hymn's C API for buffers with shapes and strides (docs/layouts.md).
#pragma once

#include "hymn/hymn_coalesced.h"

#ifdef __cplusplus
extern "C" {
#endif

/// How the elements of one side of a call lie, as BufferView's shape and strides: dense, in any
/// order of the dimensions. Only read while the call is made.
typedef struct {
  const int64_t* shape;    ///< their product is the number of elements
  const int64_t* strides;  ///< in elements; NULL: in rows, the last dimension runs fastest
  size_t dimensions;
} hymnShape_t;

/// A collective over equal blocks, of buffers whose shapes are told: so they are compared where
/// ranks compare their calls (HYMN_CHECKS), and elements that would change places are refused.
/// `send` and `recv` tell of the whole of call->sendbuf and call->recvbuf, all their blocks; NULL:
/// flat. Where both are one buffer, of as many elements, as in a broadcast, `recv` alone will do.
HYMN_API hymnResult_t hymnCollectiveShaped(hymnCollective_t collective,
                                           const hymnCollectiveCall_t* call,
                                           const hymnShape_t* send, const hymnShape_t* recv,
                                           hymnGroup_t group, hymnStream_t stream);
/// Only starts it.
HYMN_API hymnResult_t hymnICollectiveShaped(hymnCollective_t collective,
                                            const hymnCollectiveCall_t* call,
                                            const hymnShape_t* send, const hymnShape_t* recv,
                                            hymnGroup_t group, hymnStream_t stream,
                                            hymnWork_t* work);

#ifdef __cplusplus
}
#endif
