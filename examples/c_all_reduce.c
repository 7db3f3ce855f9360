// mpirun -n 4 c_all_reduce: as all_reduce.cpp, from C.
#include <hymn/hymn.h>
#include <stdio.h>

// Reports a failed call and ends; mpirun then ends the other ranks.
#define CHECK(call)                                \
  do {                                             \
    if ((call) != hymnSuccess) {                   \
      fprintf(stderr, "%s\n", hymnGetLastError()); \
      return 1;                                    \
    }                                              \
  } while (0)

int main(void) {
  hymnWorld_t world;
  hymnGroup_t group;
  int rank, size;
  CHECK(hymnInit(&world, NULL));
  CHECK(hymnWorldGroup(world, &group));
  CHECK(hymnWorldRank(world, &rank));
  CHECK(hymnWorldSize(world, &size));

  double values[1000];
  for (int i = 0; i < 1000; ++i) values[i] = rank + 1;
  CHECK(hymnAllReduce(values, values, 1000, hymnFloat64, hymnSum, group, NULL));
  printf("rank %d of %d has %g\n", rank, size, values[0]);
  CHECK(hymnFinalize(world));
  return 0;
}
