/* An MPI program in C that hands its own communicator to hymn. */
#include <hymn/hymn_mpi.h>
#include <stdint.h>
#include <stdio.h>

static int check(hymnResult_t result) {
  if (result != hymnSuccess) fprintf(stderr, "%s\n", hymnGetLastError());
  return result == hymnSuccess;
}

int main(int argc, char** argv) {
  hymnWorld_t world;
  hymnGroup_t group;
  int rank = -1, size = 0;
  MPI_Init(&argc, &argv);
  if (!check(hymnInitFromComm(&world, MPI_COMM_WORLD, NULL))) return 1;
  if (!check(hymnWorldGroup(world, &group))) return 1;
  if (!check(hymnWorldRank(world, &rank)) || !check(hymnWorldSize(world, &size))) return 1;
  int32_t value = rank + 1;
  if (!check(hymnAllReduce(&value, &value, 1, hymnInt32, hymnSum, group, NULL))) return 1;
  printf("rank %d of %d: sum %d\n", rank, size, (int)value);
  if (!check(hymnFinalize(world))) return 1;
  MPI_Finalize();
  return 0;
}
