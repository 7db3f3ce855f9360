// An MPI that damages one bit of what the programs in bench/programs get by it: loaded before the
// real one to see that they notice.
#include <dlfcn.h>
#include <mpi.h>

#include <cstddef>

namespace {

template <class Function>
Function real(Function, const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

void damage(void* buffer) { static_cast<unsigned char*>(buffer)[6] ^= 1; }

/// What ranks agree on is shorter than what programs sum up, or sort.
constexpr int many = 64;

}  // namespace

extern "C" {
__attribute__((visibility("default"))) int MPI_Sendrecv(const void* out, int out_count,
                                                        MPI_Datatype out_type, int destination,
                                                        int out_tag, void* in, int in_count,
                                                        MPI_Datatype in_type, int source,
                                                        int in_tag, MPI_Comm communicator,
                                                        MPI_Status* status) {
  static const auto call = real(&MPI_Sendrecv, "PMPI_Sendrecv");
  const int result = call(out, out_count, out_type, destination, out_tag, in, in_count, in_type,
                          source, in_tag, communicator, status);
  damage(in);
  return result;
}
__attribute__((visibility("default"))) int MPI_Allreduce(const void* in, void* out, int count,
                                                         MPI_Datatype type, MPI_Op op,
                                                         MPI_Comm communicator) {
  static const auto call = real(&MPI_Allreduce, "PMPI_Allreduce");
  const int result = call(in, out, count, type, op, communicator);
  if (count >= many) damage(out);
  return result;
}
__attribute__((visibility("default"))) int MPI_Alltoall(const void* in, int in_count,
                                                        MPI_Datatype in_type, void* out,
                                                        int out_count, MPI_Datatype out_type,
                                                        MPI_Comm communicator) {
  static const auto call = real(&MPI_Alltoall, "PMPI_Alltoall");
  const int result = call(in, in_count, in_type, out, out_count, out_type, communicator);
  if (out_count >= many) damage(out);
  return result;
}
__attribute__((visibility("default"))) int MPI_Alltoallv(
    const void* in, const int* in_counts, const int* in_offsets, MPI_Datatype in_type, void* out,
    const int* out_counts, const int* out_offsets, MPI_Datatype out_type, MPI_Comm communicator) {
  static const auto call = real(&MPI_Alltoallv, "PMPI_Alltoallv");
  const int result = call(in, in_counts, in_offsets, in_type, out, out_counts, out_offsets,
                          out_type, communicator);
  if (out_counts[0] >= many) damage(out);
  return result;
}
}
