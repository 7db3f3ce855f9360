// Worlds, and what a thread says of its calls.
#include <stdlib.h>
#include <string.h>

#include "fortran/call.h"
#include "fortran/options.h"
#include "hymn/hymn_mpi.h"

hymnWorldOptions_t fortran_world_options(FortranReport* report, const FortranWorldOptions* given) {
  hymnWorldOptions_t options = HYMN_WORLD_OPTIONS_INIT;
  if (given->timeout != NULL) options.timeout_seconds = *given->timeout;
  if (given->progress_thread != NULL) options.progress_thread = *given->progress_thread;
  if (given->reproducibility != NULL) options.reproducibility = *given->reproducibility;
  if (given->thread_level != NULL) options.thread_level = *given->thread_level;
  options.path = fortran_text(report, given->path);
  options.algo = fortran_text(report, given->algo);
  return options;
}

static void free_texts(hymnWorldOptions_t* options) {
  free((char*)options->path);
  free((char*)options->algo);
}

#define WORLD_TAIL                                                                             \
  const double *timeout, const int *progress_thread, const CFI_cdesc_t *path,                  \
      const CFI_cdesc_t *algo, const int *reproducibility, const int *thread_level, int *stat, \
      const CFI_cdesc_t *errmsg
#define WORLD_OPTIONS {timeout, progress_thread, path, algo, reproducibility, thread_level}

HYMN_API void hymnFortranInit(hymnWorld_t* world, WORLD_TAIL) {
  const FortranWorldOptions given = WORLD_OPTIONS;
  FORTRAN_BEGIN("hymn_init", NULL);
  *world = NULL;
  hymnWorldOptions_t options = fortran_world_options(&report, &given);
  if (report.result == hymnSuccess) fortran_check(&report, hymnInit(world, &options));
  free_texts(&options);
  FORTRAN_END;
}

// A communicator of mpif.h and of the module mpi is an integer; one of mpi_f08 is a type with that
// integer in it.
static MPI_Comm communicator_of(FortranReport* report, const CFI_cdesc_t* comm) {
  MPI_Fint handle = 0;
  const bool is_handle =
      comm->base_addr != NULL && comm->rank == 0 && comm->elem_len == sizeof handle &&
      (comm->type == CFI_type_int || comm->type == CFI_type_struct || comm->type == CFI_type_other);
  if (!is_handle) {
    fortran_fault(
        report, hymnUsageError,
        "comm %s: an integer of mpif.h or of the module mpi, or a type(MPI_Comm) of mpi_f08",
        comm->base_addr != NULL ? "is not an MPI communicator"
                                : "is not allocated, or not associated");
    return MPI_COMM_NULL;
  }
  memcpy(&handle, comm->base_addr, sizeof handle);
  return MPI_Comm_f2c(handle);
}

HYMN_API void hymnFortranInitFromComm(hymnWorld_t* world, const CFI_cdesc_t* comm, WORLD_TAIL) {
  const FortranWorldOptions given = WORLD_OPTIONS;
  FORTRAN_BEGIN("hymn_init_from_comm", NULL);
  *world = NULL;
  const MPI_Comm communicator = communicator_of(&report, comm);
  hymnWorldOptions_t options = fortran_world_options(&report, &given);
  if (report.result == hymnSuccess)
    fortran_check(&report, hymnInitFromComm(world, communicator, &options));
  free_texts(&options);
  FORTRAN_END;
}

HYMN_API void hymnFortranFinalize(hymnWorld_t* world, int* stat, const CFI_cdesc_t* errmsg) {
  FORTRAN_BEGIN("hymn_finalize", NULL);
  fortran_check(&report, hymnFinalize(*world));
  if (report.result != hymnUsageError) *world = NULL;  // it was not refused
  FORTRAN_END;
}

// OF_WORLD(NAME, name, FUNCTION, TYPE, NONE): what a world is asked; NONE where it does not answer.
#define OF_WORLD(Name, name, function, Type, none)                                       \
  HYMN_API void hymnFortranWorld##Name(const hymnWorld_t* world, Type* value, int* stat, \
                                       const CFI_cdesc_t* errmsg) {                      \
    FORTRAN_BEGIN("hymn_world_" #name, NULL);                                            \
    *value = none;                                                                       \
    fortran_check(&report, function(*world, value));                                     \
    FORTRAN_END;                                                                         \
  }
OF_WORLD(Rank, rank, hymnWorldRank, int, -1)
OF_WORLD(Size, size, hymnWorldSize, int, -1)
OF_WORLD(LocalRank, local_rank, hymnWorldLocalRank, int, -1)
OF_WORLD(LocalSize, local_size, hymnWorldLocalSize, int, -1)
OF_WORLD(HostCount, host_count, hymnWorldHostCount, int, -1)
OF_WORLD(Gpu, gpu, hymnWorldGpu, int, -1)
OF_WORLD(Group, group, hymnWorldGroup, hymnGroup_t, NULL)

HYMN_API void hymnFortranThreadSetTimeout(const double* timeout, int* stat,
                                          const CFI_cdesc_t* errmsg) {
  FORTRAN_BEGIN("hymn_thread_set_timeout", NULL);
  fortran_check(&report, hymnThreadSetTimeout(*timeout));
  FORTRAN_END;
}

/// For the functions of hymn.f90 that give a text: its length, and its characters from 1.
HYMN_API size_t hymnFortranErrorLength(void) { return strlen(fortran_last_error()); }
HYMN_API void hymnFortranErrorCopy(char* text, size_t length) {
  memcpy(text, fortran_last_error(), length);
}
HYMN_API size_t hymnFortranTextLength(const char* text) { return strlen(text); }
HYMN_API void hymnFortranTextCopy(const char* from, char* text, size_t length) {
  memcpy(text, from, length);
}
