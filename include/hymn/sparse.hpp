// all_reduce of sparse tensors, which are sent as the entries they have: docs/sparse.md. For one
// that has most of its entries all_reduce of a dense array is faster.
#pragma once

#include "hymn/standard.hpp"  // first

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "hymn/buffer.hpp"
#include "hymn/export.hpp"
#include "hymn/process_group.hpp"
#include "hymn/timeout.hpp"
#include "hymn/types.hpp"
#include "hymn/work.hpp"

namespace hymn {

/// A sparse tensor in coordinate form (COO), as torch.sparse_coo_tensor: entries, each with an
/// index in the first `sparse_dims` dimensions, and a dense block of the others as its value.
/// Entries come in any order, and may have an index in common. It owns nothing; all of it is in
/// memory of the host.
struct SparseView {
  /// Of the dense tensor that it stands for, the sparse dimensions first: {rows, columns} for rows
  /// of an embedding's gradient.
  std::span<const std::int64_t> shape{};
  /// [sparse_dims x entries]: of entry i in dimension d it is indices[d * entries + i].
  std::span<const std::int64_t> indices{};
  /// [entries x block], without gaps. Its dtype counts where there are no entries, too.
  ConstBufferView values{};
  std::size_t sparse_dims = 1;
};

namespace detail {
/// Throws UsageError where they differ.
HYMN_API void require_dtype(DataType asked, DataType there);
}  // namespace detail

/// The same in memory of its own. What all_reduce_sparse() returns is coalesced: no index is there
/// twice, and entries are in lexicographic order of their indices.
struct SparseTensor {
  std::vector<std::int64_t> shape{};
  std::vector<std::int64_t> indices{};  ///< as SparseView::indices
  std::vector<std::byte> values{};      ///< [entries x block], elements of `dtype`
  DataType dtype = DataType::uint8;
  std::size_t sparse_dims = 1;

  std::size_t entries() const { return indices.size() / sparse_dims; }
  /// UsageError: T is not the dtype.
  template <Element T>
  std::span<const T> values_as() const {
    detail::require_dtype(data_type_of<T>, dtype);
    return {reinterpret_cast<const T*>(values.data()), values.size() / sizeof(T)};
  }
  /// For another call; it must not outlive this tensor.
  SparseView view() const {
    return {.shape = shape,
            .indices = indices,
            .values = {values.data(), values.size() / size_of(dtype), dtype},
            .sparse_dims = sparse_dims};
  }
};

/// Options of one call, the same on all ranks.
struct SparseOptions {
  /// sum, product, min, max, avg, or a bitwise or logical one, where the dtype has it.
  ReduceOp reduction{};
  /// [sparse_dims x rows]: the indices that can have entries, each of them once, in any order. Then
  /// values alone travel, by one all_reduce, and the result has an entry for each of these indices.
  /// Empty: the indices travel, too.
  std::span<const std::int64_t> declared{};
  Timeout timeout{};  ///< of each operation that the call is made of; unset: the group's
};

/// The reduction of the tensors of all members, on all of them, with the same bits. An entry that
/// is not there takes no part: so a sum is that of the dense tensors, and an average that sum,
/// divided by the number of ranks; the least value is the least of those that are there.
///
/// Entries with the same index are folded in the order of ranks, those of one rank as they come,
/// and rounded once. With declared indices each rank folds its own, and all_reduce those of the
/// ranks; where no rank has an entry the result is 0, or what changes nothing (1 for a product, the
/// greatest number for min).
///
/// Three all_gathers of the group: of what all must know of each other, of indices, of values; with
/// declared indices an all_gather and an all_reduce. Blocking. Empty on a rank outside, with a
/// warning.
///
/// UsageError, on all ranks, naming those at fault: indices out of the shape, or not declared, or
/// declared twice; a size that does not fit; shapes, dtypes, numbers of sparse dimensions,
/// reductions or declared indices that differ between ranks. UnsupportedError, on all ranks: a
/// reduction that the dtype does not have; memory of a GPU ("NCCL does not support all_reduce with
/// sparse tensors"). The group goes on then. A rank without the memory for the result gives the
/// group up.
///
/// Thread safety: as of ProcessGroup's calls; threads that call it at the same time must keep its
/// operations together, or use groups of their own.
HYMN_API SparseTensor all_reduce_sparse(const ProcessGroup& group, const SparseView& tensor,
                                        const SparseOptions& options = {});

/// Its asynchronous twin: `result`, which may be what is reduced, is written when the Work
/// completes well. Until then the values and `result` must stay; the rest of what is given is
/// copied. What is an error on all ranks is that of the Work, and the group goes on. Other ranks
/// may make the blocking call.
///
/// It is one operation, by its name an all_gather: of what all must know of each other, in its
/// place among the calls of the group. Indices and values follow by messages of its own, whatever
/// is called meanwhile; with declared indices values alone. They go over what the world was made
/// over (MPI, TCP, memory of the process), which for large tensors is slower than the blocking
/// call.
HYMN_API Work all_reduce_sparse_async(const ProcessGroup& group, const SparseView& tensor,
                                      SparseTensor& result, const SparseOptions& options = {});

}  // namespace hymn
