// What one rank gives to a sparse all_reduce, once it is known to be sound.
#pragma once

#include "collectives/reduce/reducer.hpp"
#include "hymn/sparse.hpp"
#include "runtime/group/sparse_places.hpp"

namespace hymn::detail {

class GroupState;

struct SparseInput {
  /// Throws UsageError and UnsupportedError for what this rank alone can see to be wrong.
  SparseInput(const SparseView& tensor, const SparseOptions& options, const GroupState& group);

  SparsePlaces places;
  SparseKeys keys;      ///< of the entries
  SparseKeys declared;  ///< ascending
  Reducer reducer;
};

}  // namespace hymn::detail
