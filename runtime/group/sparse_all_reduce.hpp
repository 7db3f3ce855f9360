// all_reduce_sparse() as other calls of the user's code make it: the C API.
#pragma once

#include "hymn/sparse.hpp"

namespace hymn::detail {

// `site`: where the call returns to in the user's code.
SparseTensor all_reduce_sparse(const ProcessGroup& group, const SparseView& tensor,
                               const SparseOptions& options, const void* site);
Work all_reduce_sparse_async(const ProcessGroup& group, const SparseView& tensor,
                             SparseTensor& result, const SparseOptions& options, const void* site);

}  // namespace hymn::detail
