// main() of programs that know nothing of hymn: MPI, and tests of each rank. All ranks fail with
// one.
#include <gtest/gtest.h>
#include <mpi.h>

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  MPI_Init(&argc, &argv);
  int failed = RUN_ALL_TESTS();
  int one_failed = 0;
  MPI_Allreduce(&failed, &one_failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return one_failed;
}
