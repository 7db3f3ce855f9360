// Worlds beneath programs that know nothing of hymn.
#pragma once

#include "base/private.hpp"
#include "hymn/interop_mpi.hpp"

namespace hymn {

/// A world that carries collectives in the place of MPI (preload/). It has no limits, no threads,
/// no control plane and no record that others could find, writes nothing, and its sums are the same
/// for every placement. Collective over `communicator`, which is duplicated; `on_one_host` is the
/// same on all of its ranks, and then only shared memory carries. `meanwhile` as
/// WorldSettings::meanwhile.
HYMN_PRIVATE World world_behind_mpi(MPI_Comm communicator, bool on_one_host, void (*meanwhile)());

}  // namespace hymn
