#include "preload/quiet.hpp"

namespace hymn::preload {
namespace {

MPI_Comm own_comm = MPI_COMM_NULL;

}  // namespace

MPI_Comm quiet_comm() { return own_comm; }

// A copy has the handler of what it is a copy of.
void begin_quiet() {
  if (PMPI_Comm_dup(MPI_COMM_SELF, &own_comm) != MPI_SUCCESS) own_comm = MPI_COMM_NULL;
  if (own_comm != MPI_COMM_NULL) PMPI_Comm_set_errhandler(own_comm, MPI_ERRORS_RETURN);
}

void end_quiet() {
  if (own_comm != MPI_COMM_NULL) PMPI_Comm_free(&own_comm);
}

}  // namespace hymn::preload
