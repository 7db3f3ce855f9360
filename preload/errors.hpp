// hymn's failures as MPI's errors.
#pragma once

#include <exception>

#include "preload/mpi.hpp"

namespace hymn::preload {

/// Calls the error handler of the communicator with an error of MPI's that says what has happened;
/// returns its code, if the handler returns.
int report_error(MPI_Comm comm, const std::exception& error);

}  // namespace hymn::preload
