// Ranks that make a world over one store, perhaps not for the first time.
#pragma once

#include "torch_version.hpp"

namespace hymn_torch {

/// Waits until all ranks have come to the same try, which rank 0 begins, and gives what is of that
/// try alone. Who has come to one that is over, or is a process that came later, waits for the
/// next. Throws a DistBackendError that names who has not come.
c10::intrusive_ptr<c10d::Store> store_of_try(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                             int size, double limit_seconds);

}  // namespace hymn_torch
