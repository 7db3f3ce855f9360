// hymn's C API for sparse tensors: as hymn::all_reduce_sparse() (docs/sparse.md).
#pragma once

#include "hymn/hymn.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A sparse tensor in coordinate form: entries, each with an index in the sparse dimensions, and a
/// dense block of the others as its value. All of it is in memory of the host.
typedef struct {
  const int64_t* shape;  ///< of the dense tensor, sparse dimensions first
  size_t dimensions;     ///< of the shape
  size_t sparse_dimensions;
  const int64_t* indices;  ///< [sparse_dimensions x entries]: of entry i in dimension d it is
                           ///< indices[d * entries + i]
  const void* values;      ///< [entries x block]
  size_t entries;
  hymnDataType_t dtype;  ///< of the values; it counts where there are no entries, too
} hymnSparse_t;

/// What has come of a reduction, in memory of its own.
typedef struct hymnSparseTensor* hymnSparseTensor_t;

/// The reduction of the tensors of all members, on all of them: each index once, in lexicographic
/// order. `declared`, [sparse_dimensions x rows]: the indices that can have entries, the same on
/// all ranks; then values alone travel. NULL and 0: none are declared. A rank outside gets an empty
/// tensor. As hymn::all_reduce_sparse(): what is wrong on one rank is hymnUsageError or
/// hymnUnsupportedError on all, but for a null pointer, or a number that is no dtype or operation:
/// that is hymnUsageError on that rank alone, and the others wait for it.
HYMN_API hymnResult_t hymnAllReduceSparse(const hymnSparse_t* tensor, hymnOp_t op,
                                          const int64_t* declared, size_t rows, hymnGroup_t group,
                                          hymnSparseTensor_t* result);
/// Only starts it, as hymn::all_reduce_sparse_async(): until the Work has completed the values must
/// stay, and the handle, which is there at once, is not looked at, nor freed. What is wrong on one
/// rank is the error of the Work on all; the handle is empty then, and freed as any.
HYMN_API hymnResult_t hymnIAllReduceSparse(const hymnSparse_t* tensor, hymnOp_t op,
                                           const int64_t* declared, size_t rows, hymnGroup_t group,
                                           hymnSparseTensor_t* result, hymnWork_t* work);
/// What it holds, which stays with the handle.
HYMN_API hymnResult_t hymnSparseTensorView(hymnSparseTensor_t tensor, hymnSparse_t* view);
/// Frees the handle, and what it holds.
HYMN_API hymnResult_t hymnSparseTensorFree(hymnSparseTensor_t tensor);

#ifdef __cplusplus
}
#endif
