// The C API inside an application that initialises and finalizes MPI itself.
#include "check.h"
#include "hymn/hymn_mpi.h"

static void check_sum(hymnWorld_t world, int members) {
  int32_t one = 1;
  int size = -1;
  hymnGroup_t group = NULL;
  CHECK_OK(hymnWorldSize(world, &size));
  CHECK(size == members);
  CHECK_OK(hymnWorldGroup(world, &group));
  CHECK_OK(hymnAllReduce(&one, &one, 1, hymnInt32, hymnSum, group, NULL));
  CHECK(one == members);
}

int main(int argc, char** argv) {
  hymnWorld_t world = NULL;
  MPI_Comm half;
  int rank = -1, size = -1, half_size = -1, finalized = 1;
  CHECK(MPI_Init(&argc, &argv) == MPI_SUCCESS);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  CHECK_OK(hymnInitFromComm(&world, MPI_COMM_WORLD, NULL));
  check_sum(world, size);
  CHECK_OK(hymnFinalize(world));

  // Two worlds side by side, each from its own communicator.
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  MPI_Comm_size(half, &half_size);
  CHECK_OK(hymnInitFromComm(&world, half, NULL));
  check_sum(world, half_size);
  CHECK_OK(hymnFinalize(world));
  CHECK_FAILS(hymnUsageError, "", hymnInitFromComm(&world, MPI_COMM_NULL, NULL));
  CHECK(world == NULL);

  MPI_Comm_free(&half);
  MPI_Finalized(&finalized);
  CHECK(!finalized);
  CHECK(MPI_Finalize() == MPI_SUCCESS);
  return 0;
}
