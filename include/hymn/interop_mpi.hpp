// Where hymn meets an application's own MPI: the only C++ header with MPI types in it.
#pragma once

#include "hymn/standard.hpp"  // first

// MPI's own C++ bindings were withdrawn long ago; without these, mpi.h still declares them.
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include "hymn/world.hpp"

namespace hymn {

/// A World from a communicator of an application that has initialised MPI itself, at any level of
/// thread support. Collective over `communicator`, which is duplicated, and stays the caller's.
/// hymn will never finalize that MPI, and makes no MPI call once it has been finalized.
HYMN_API World world_from_communicator(MPI_Comm communicator, const WorldOptions& options = {});

/// A buffer of any MPI datatype, and any MPI reduction: passed through to MPI where MPI carries the
/// operation, refused ("unknown MPI type") by every other path. The OpaqueType must outlive the
/// view.
HYMN_API OpaqueType opaque_type(MPI_Datatype datatype);
HYMN_API BufferView buffer_of(void* data, std::size_t count, const OpaqueType& type);
HYMN_API ConstBufferView buffer_of(const void* data, std::size_t count, const OpaqueType& type);
HYMN_API ReduceOp opaque_op(MPI_Op op);

}  // namespace hymn
