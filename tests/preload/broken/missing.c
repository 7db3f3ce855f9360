// Rank 1 leaves out a collective: it takes another branch.
#include <mpi.h>
#include <unistd.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  double part = rank;
  double total = 0;
  for (int step = 0; step < 6; ++step) {
    if (rank == 1 && step == 5) {
      pause();  // computes for ever
    }
    MPI_Allreduce(&part, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  MPI_Finalize();
  return 0;
}
