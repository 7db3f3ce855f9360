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
  // What a program has not freed must not be in the way of its end.
  MPI_Comm kept = MPI_COMM_NULL;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &kept);
  MPI_Type_vector(2, 1, 2, MPI_INT, &type);
  MPI_Type_commit(&type);
  int values[3] = {};
  for (int i = 0; i < 4; ++i) MPI_Bcast(values, 1, type, 0, kept);
  MPI_Finalize();
  return one_failed;
}
