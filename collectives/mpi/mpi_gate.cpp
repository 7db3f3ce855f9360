#include "collectives/mpi/mpi_gate.hpp"

#include <fmt/format.h>

#include "hymn/error.hpp"

namespace hymn {

void MpiGate::Entry::throw_closed() {
  throw UsageError("MPI has been finalized",
                   {.remedy = "destroy the World, and use its groups, before MPI_Finalize"});
}

void MpiGate::Entry::throw_wrong_thread(ThreadLevel level) {
  throw UsageError(
      fmt::format("MPI was initialised with MPI_THREAD_{}: this thread may not call it",
                  level == ThreadLevel::single ? "SINGLE" : "FUNNELED"),
      {.remedy = "call from the thread that initialised MPI, or ask for MPI_THREAD_SERIALIZED or "
                 "MPI_THREAD_MULTIPLE in MPI_Init_thread"});
}

}  // namespace hymn
