// Where the C API meets an application's own MPI: the only C header of hymn with MPI types in it.
#pragma once

// In C++, keeps mpi.h from declaring MPI's own C++ bindings, which were withdrawn long ago.
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include "hymn/hymn.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A world from a communicator of an application that has initialised MPI itself, at any level of
/// thread support. Every rank of `communicator` calls it; it is duplicated, and stays the caller's.
/// hymn will never finalize that MPI, and makes no MPI call once it has been finalized.
HYMN_API hymnResult_t hymnInitFromComm(hymnWorld_t* world, MPI_Comm communicator,
                                       const hymnWorldOptions_t* options);

#ifdef __cplusplus
}
#endif
