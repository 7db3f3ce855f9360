// A communicator of the preload's own, of this rank alone.
#pragma once

#include "preload/mpi.hpp"

namespace hymn::preload {

/// For what MPI does for one rank, and refuses without asking a handler of the program: errors
/// return. MPI_COMM_NULL before begin_quiet() and after end_quiet().
MPI_Comm quiet_comm();
/// Lets MPI move what others want of this rank: long messages that it has started, windows,
/// collectives that do not block. Any thread may.
void move_mpi();
void begin_quiet();
void end_quiet();

}  // namespace hymn::preload
