// hymn's reductions as MPI's types and operations.
#pragma once

#include "collectives/reduce/reducer.hpp"
#include "p2p/mpi/mpi_types.hpp"

namespace hymn {

/// The MPI type of an accumulator, and the MPI operation that combines accumulators: MPI's own
/// where it is exactly what docs/dtypes.md defines, else one made of hymn's kernel. Made at first
/// use and kept until MPI is finalized.
MPI_Datatype mpi_type(Accumulator accumulator);
MPI_Op mpi_op(Accumulator accumulator, ReduceKind kind);

}  // namespace hymn
