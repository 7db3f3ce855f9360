// The C API, used from C11 under mpirun: the world, and the parts that the other files test.
#define _POSIX_C_SOURCE 200112L  // setenv
#include <math.h>

#include "check.h"

static void test_texts(void) {
  CHECK(strcmp(hymnGetLastError(), "") == 0);
  CHECK(strcmp(hymnGetErrorString(hymnSuccess), "success") == 0);
  for (int code = hymnSuccess; code <= hymnInternalError; ++code) {
    for (int other = hymnSuccess; other < code; ++other) {
      CHECK(strcmp(hymnGetErrorString((hymnResult_t)code),
                   hymnGetErrorString((hymnResult_t)other)) != 0);
    }
  }
  CHECK(strstr(hymnGetErrorString((hymnResult_t)15), "not a hymnResult_t") != NULL);
  int major = 0, minor = 0, patch = 0;
  CHECK(sscanf(hymnGetVersion(), "%d.%d.%d", &major, &minor, &patch) == 3);
}

static void test_init_errors(void) {
  hymnWorld_t world = NULL;
  CHECK_FAILS(hymnUsageError, "world is NULL", hymnInit(NULL, NULL));
  hymnWorldOptions_t options = HYMN_WORLD_OPTIONS_INIT;
  options.thread_level = hymnThreadFunneled;  // the first one for which MPI is initialised
  options.size = 0;
  CHECK_FAILS(hymnUsageError, "size is 0", hymnInit(&world, &options));
  options.size = 10 * sizeof options;
  CHECK_FAILS(hymnUsageError, "hymnWorldOptions_t", hymnInit(&world, &options));
  options.size = sizeof options;
  options.timeout_seconds = NAN;
  CHECK_FAILS(hymnUsageError, "NaN", hymnInit(&world, &options));
  options.timeout_seconds = HYMN_TIMEOUT_DEFAULT;
  options.path = "carrier_pigeon";
  CHECK_FAILS(hymnConfigError, "carrier_pigeon", hymnInit(&world, &options));
  options.path = NULL;
  options.algo = "all_reduce_abacus";
  CHECK_FAILS(hymnConfigError, "all_reduce_abacus", hymnInit(&world, &options));
  options.algo = NULL;
  options.reproducibility = 9;
  CHECK_FAILS(hymnUsageError, "reproducibility is 9", hymnInit(&world, &options));
  options.reproducibility = -1;
  CHECK_FAILS(hymnUsageError, "reproducibility is -1", hymnInit(&world, &options));
  options.reproducibility = hymnReproducibleDefault;
  options.thread_level = 5;
  CHECK_FAILS(hymnUsageError, "thread_level is 5", hymnInit(&world, &options));
  options.thread_level = -1;
  CHECK_FAILS(hymnUsageError, "thread_level is -1", hymnInit(&world, &options));
  CHECK(world == NULL);
  CHECK_FAILS(hymnUsageError, "world is NULL", hymnFinalize(NULL));
}

static void test_world(hymnWorld_t world, double timeout) {
  int rank = -1, size = -1, local_rank = -1, local_size = -1, hosts = -1;
  CHECK_OK(hymnWorldRank(world, &rank));
  CHECK_OK(hymnWorldSize(world, &size));
  CHECK_OK(hymnWorldLocalRank(world, &local_rank));
  CHECK_OK(hymnWorldLocalSize(world, &local_size));
  CHECK_OK(hymnWorldHostCount(world, &hosts));
  CHECK(0 <= rank && rank < size && rank == local_rank && size == local_size && hosts == 1);
  const char* expected = getenv("OMPI_COMM_WORLD_SIZE");
  if (expected == NULL) expected = getenv("PMI_SIZE");
  if (expected != NULL) CHECK(size == atoi(expected));

  hymnGroup_t group = NULL;
  double seconds = 0;
  CHECK_OK(hymnWorldGroup(world, &group));
  CHECK_OK(hymnGroupGetTimeout(group, &seconds));
  CHECK(seconds == timeout);
  CHECK_FAILS(hymnUsageError, "belongs to its world", hymnGroupFree(group));
}

int main(void) {
  test_texts();
  test_init_errors();

  hymnWorldOptions_t options = HYMN_WORLD_OPTIONS_INIT;
  options.timeout_seconds = 60;
  options.thread_level = hymnThreadFunneled;
  hymnWorld_t world = NULL;
  hymnGroup_t group = NULL;
  CHECK_OK(hymnInit(&world, &options));
  test_world(world, 60);
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
  test_values(world);
  CHECK_OK(hymnFinalize(world));

  // Again, with the plain blocking MPI calls.
  options.timeout_seconds = HYMN_TIMEOUT_NONE;
  options.progress_thread = -1;
  CHECK_OK(hymnInit(&world, &options));
  test_world(world, HYMN_TIMEOUT_NONE);
  CHECK_OK(hymnWorldGroup(world, &group));
  test_collectives(group);
  CHECK_OK(hymnFinalize(world));

  // And where all that differs is told.
  CHECK(setenv("HYMN_CHECKS", "detail", 1) == 0);
  options.timeout_seconds = 60;
  CHECK_OK(hymnInit(&world, &options));
  test_shapes_of_ranks(world);
  CHECK_OK(hymnFinalize(world));
  return 0;
}
