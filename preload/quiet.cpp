#include "preload/quiet.hpp"

namespace hymn::preload {
namespace {

MPI_Comm own_comm = MPI_COMM_NULL;
// A receive that nobody answers: to ask for it moves every MPI, where looking for messages
// (MPI_Iprobe) does not move MPICH.
MPI_Request never = MPI_REQUEST_NULL;

}  // namespace

MPI_Comm quiet_comm() { return own_comm; }

// A copy has the handler of what it is a copy of.
void begin_quiet() {
  if (PMPI_Comm_dup(MPI_COMM_SELF, &own_comm) != MPI_SUCCESS) own_comm = MPI_COMM_NULL;
  if (own_comm == MPI_COMM_NULL) return;
  PMPI_Comm_set_errhandler(own_comm, MPI_ERRORS_RETURN);
  PMPI_Irecv(nullptr, 0, MPI_BYTE, 0, 0, own_comm, &never);
}

void move_mpi() {
  int has_come = 0;
  PMPI_Request_get_status(never, &has_come, MPI_STATUS_IGNORE);
}

void end_quiet() {
  if (never != MPI_REQUEST_NULL) {
    PMPI_Cancel(&never);
    PMPI_Wait(&never, MPI_STATUS_IGNORE);
  }
  if (own_comm != MPI_COMM_NULL) PMPI_Comm_free(&own_comm);
}

}  // namespace hymn::preload
