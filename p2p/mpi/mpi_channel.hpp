// What all that use MPI for one group share, and how failures of MPI become errors.
#pragma once

// The C++ bindings of MPI were withdrawn from the standard; mpi.h of some libraries still has them.
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <cstddef>
#include <memory>

#include "base/private.hpp"
#include "p2p/mpi/mpi_gate.hpp"
#include "p2p/mpi/mpi_traffic.hpp"

namespace hymn {

/// A group's own communicator. hymn calls only PMPI_*, so that a profiler, or a library that takes
/// over MPI's collectives, does not see hymn's own calls.
struct MpiChannel {
  static constexpr std::size_t usual_chunk_limit = std::size_t{1} << 30;

  MPI_Comm communicator = MPI_COMM_NULL;
  std::shared_ptr<MpiGate> gate;
  std::size_t chunk_limit = usual_chunk_limit;  ///< most elements in one call
  int tag_bound = 32767;                        ///< MPI_TAG_UB
  MpiTraffic traffic;

  explicit MpiChannel(std::size_t members = 1) : traffic(members) {}
  MpiChannel(const MpiChannel&) = delete;
  MpiChannel& operator=(const MpiChannel&) = delete;
  virtual ~MpiChannel() = default;
};

[[noreturn]] HYMN_PRIVATE void throw_mpi_error(int code, const char* call);

/// Throws BackendError with MPI's own text and code when `code` is not MPI_SUCCESS.
inline void check_mpi(int code, const char* call) {
  if (code != MPI_SUCCESS) [[unlikely]]
    throw_mpi_error(code, call);
}

/// MPI_Test, whose errors return. MPICH raises those of a message, such as that it is longer than
/// its buffer, not by the handler of the communicator but by that of MPI_COMM_WORLD, which ends the
/// job.
int test_mpi(MPI_Request* request, int* done, MPI_Status* status);

}  // namespace hymn
