// Entries of sparse tensors become rows, of which each index has one.
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/reduce/reducer.hpp"
#include "runtime/group/sparse_places.hpp"

namespace hymn::detail {

struct SparseRows {
  SparseKeys keys;                ///< ascending
  std::vector<std::byte> values;  ///< a block for each
};

/// Folds the blocks that have a key in common, in the order in which they are in `values`, and
/// rounds once. `ranks`: by how many an average is divided.
SparseRows merge(const Reducer& reducer, std::span<const std::uint64_t> keys,
                 const std::byte* values, std::size_t block, int ranks);

/// What each row of `to` has of `rows`, whose keys are among its own; others stay as they are.
void put_rows(const SparseRows& rows, SparseRows& to, std::size_t block_bytes);

}  // namespace hymn::detail
