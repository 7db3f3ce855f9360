// An MPI whose larger broadcasts damage one bit: loaded before the real one to see that it is
// noticed.
#include <dlfcn.h>
#include <mpi.h>

namespace {

int broadcast_and_damage(void* buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm) {
  using Broadcast = int (*)(void*, int, MPI_Datatype, int, MPI_Comm);
  static const auto real = reinterpret_cast<Broadcast>(dlsym(RTLD_NEXT, "PMPI_Bcast"));
  const int result = real(buffer, count, datatype, root, comm);
  // The small ones are those by which ranks agree on something.
  if (count >= 1024) static_cast<char*>(buffer)[count / 2] ^= 1;
  return result;
}

}  // namespace

extern "C" {
__attribute__((visibility("default"))) int PMPI_Bcast(void* buffer, int count,
                                                      MPI_Datatype datatype, int root,
                                                      MPI_Comm comm) {
  return broadcast_and_damage(buffer, count, datatype, root, comm);
}
__attribute__((visibility("default"))) int MPI_Bcast(void* buffer, int count, MPI_Datatype datatype,
                                                     int root, MPI_Comm comm) {
  return broadcast_and_damage(buffer, count, datatype, root, comm);
}
}
