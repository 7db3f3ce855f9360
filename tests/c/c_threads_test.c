// The C API with ranks as threads: no mpirun, no MPI.
#include "check.h"

enum { ranks = 3 };

static hymnResult_t add_up(hymnWorld_t world, void* user) {
  int64_t* results = user;
  int rank = -1;
  hymnGroup_t group = NULL;
  CHECK(strcmp(hymnGetLastError(), "") == 0);  // each thread has its own
  CHECK_OK(hymnWorldRank(world, &rank));
  CHECK_OK(hymnWorldGroup(world, &group));
  test_collectives(group);
  test_groups(world);
  test_point_to_point(world);
  test_prepared(world);
  test_work(world);
  test_errors(world);
  test_join(world);
  test_mesh(world);
  test_caller(world);
  test_coalesced(world);
  test_shaped(world);
  test_sparse(world);
  test_store(world);
  hymnWorld_t current = NULL;
  CHECK_OK(hymnWorldCurrent(&current));
  CHECK(current == world);
  test_values(world);
  int64_t sum = rank + 1;
  CHECK_OK(hymnAllReduce(&sum, &sum, 1, hymnInt64, hymnSum, group, NULL));
  results[rank] = sum;
  CHECK_FAILS(hymnUsageError, "hymnThreadsRun", hymnFinalize(world));
  return hymnSuccess;
}

// Rank 1 makes a wrong call; the others wait for it until they are freed.
static hymnResult_t fail_on_one(hymnWorld_t world, void* user) {
  (void)user;
  int rank = -1;
  hymnGroup_t group = NULL;
  CHECK_OK(hymnWorldRank(world, &rank));
  CHECK_OK(hymnWorldGroup(world, &group));
  if (rank == 1) return hymnBroadcast(NULL, 1, hymnInt32, 0, group, NULL);
  const hymnResult_t result = hymnBarrier(group, NULL);
  CHECK(result == hymnAbortedError);
  return result;
}

static hymnResult_t invent_a_code(hymnWorld_t world, void* user) {
  (void)world, (void)user;
  return (hymnResult_t)14;
}

int main(void) {
  int64_t results[ranks] = {0};
  hymnWorld_t none = NULL;
  CHECK_FAILS(hymnUsageError, "no rank's", hymnWorldCurrent(&none));
  CHECK(none == NULL);
  CHECK_OK(hymnThreadsRun(ranks, add_up, results, NULL));
  for (int i = 0; i < ranks; ++i) CHECK(results[i] == 6);

  CHECK_FAILS(hymnUsageError, "rank 1", hymnThreadsRun(ranks, fail_on_one, NULL, NULL));
  CHECK(strstr(hymnGetLastError(), "hymnBroadcast") != NULL);
  CHECK_FAILS(hymnUsageError, "returned 14", hymnThreadsRun(1, invent_a_code, NULL, NULL));
  CHECK_FAILS(hymnUsageError, "rank_main is NULL", hymnThreadsRun(1, NULL, NULL, NULL));
  CHECK_FAILS(hymnUsageError, "rank", hymnThreadsRun(0, add_up, results, NULL));
  return 0;
}
