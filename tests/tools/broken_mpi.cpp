// An MPI that does not start, or that grants no threads: loaded before the real one to see what is
// said about it. BROKEN_MPI is `init` or `threads`.
#include <dlfcn.h>
#include <mpi.h>

#include <cstdlib>
#include <cstring>

extern "C" {
__attribute__((visibility("default"))) int PMPI_Init_thread(int* argc, char*** argv, int required,
                                                            int* provided) {
  using Init = int (*)(int*, char***, int, int*);
  static const auto real = reinterpret_cast<Init>(dlsym(RTLD_NEXT, "PMPI_Init_thread"));
  const char* broken = std::getenv("BROKEN_MPI");
  if (broken != nullptr && std::strcmp(broken, "init") == 0) return MPI_ERR_INTERN;
  const int result = real(argc, argv, required, provided);
  *provided = MPI_THREAD_SINGLE;
  return result;
}
}
