#include "p2p/mpi/mpi_channel.hpp"

#include <fmt/format.h>

#include <mutex>

#include "hymn/error.hpp"

namespace hymn {

void throw_mpi_error(int code, const char* call) {
  // When MPI_Init_thread itself has failed, asking MPI for its words would end the process.
  int is_up = 0;
  PMPI_Initialized(&is_up);
  if (is_up == 0)
    throw BackendError(fmt::format("{} failed with code {}", call, code), "MPI", code);
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

#ifdef MPICH_VERSION
int test_mpi(MPI_Request* request, int* done, MPI_Status* status) {
  // Another thread must neither take this handler for the program's, nor end it too early.
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  PMPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
  const bool returns = handler == MPI_ERRORS_RETURN;
  if (!returns) PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int code = PMPI_Test(request, done, status);
  if (!returns) PMPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  if (handler != MPI_ERRHANDLER_NULL) PMPI_Errhandler_free(&handler);
  return code;
}
#else
int test_mpi(MPI_Request* request, int* done, MPI_Status* status) {
  return PMPI_Test(request, done, status);
}
#endif

}  // namespace hymn
