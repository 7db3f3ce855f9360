// An MPI program in C++ that hands its own communicator to hymn.
#include <mpi.h>  // as programs do that know nothing of hymn's own ways

#include <cstdio>
#include <hymn/interop_mpi.hpp>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    hymn::World world = hymn::world_from_communicator(MPI_COMM_WORLD);
    int value = world.rank() + 1;
    world.group().all_reduce(hymn::view_of(value));
    std::printf("rank %d of %d: sum %d\n", world.rank(), world.size(), value);
  }
  MPI_Finalize();
}
