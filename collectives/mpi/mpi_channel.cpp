#include "collectives/mpi/mpi_channel.hpp"

#include <fmt/format.h>

#include "hymn/error.hpp"

namespace hymn {

void throw_mpi_error(int code, const char* call) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  PMPI_Error_string(code, text, &length);
  int error_class = MPI_ERR_OTHER;
  PMPI_Error_class(code, &error_class);
  if (error_class == MPI_ERR_TRUNCATE)
    throw UsageError("a message was longer than the buffer that received it",
                     {.remedy = "give the same count and dtype on both sides"});
  throw BackendError(fmt::format("{} failed: {}", call, text), "MPI", code);
}

}  // namespace hymn
