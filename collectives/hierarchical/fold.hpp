// The two halves of a reduction across hosts: inputs to accumulators inside a host, accumulators to
// results between hosts.
#pragma once

#include "collectives/reduce/reducer.hpp"

namespace hymn {

/// The same for inputs and results that are accumulators.
Reducer of_accumulators(Reducer reducer);

/// accumulators[i] = inputs[0][i] op inputs[1][i] op …, loaded, but not stored. `factors` as for
/// reduce_all. They do not overlap.
void fold_inputs(const Reducer& reducer, const void* const* inputs, int members, void* accumulators,
                 std::size_t count, const double* factors);

/// output[i] = what accumulators inputs[0][i] op inputs[1][i] op … come to, stored as the result of
/// `ranks` ranks. `own`, one of the inputs, may be overwritten; the output overlaps none of them.
void fold_accumulators(const Reducer& reducer, const void* const* inputs, int hosts, void* own,
                       void* output, std::size_t count, int ranks);

/// output[i] = what accumulator before[i] op inputs[0][i] op … comes to, stored; `before` null: of
/// one input or more alone. The output may be one of the inputs (exactly), or overlaps none.
void fold_behind(const Reducer& reducer, const void* before, const void* const* inputs, int members,
                 void* output, std::size_t count, const double* factors);

}  // namespace hymn
