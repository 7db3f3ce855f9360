// Groups of the C API: sub-groups, translation of ranks, timeouts, and their end.
#include "check.h"

enum { max_ranks = 16 };

static hymnGroup_t make_group(hymnWorld_t world, const int* ranks, size_t n) {
  hymnGroupOptions_t options = HYMN_GROUP_OPTIONS_INIT;
  options.description = "some ranks";
  options.timeout_seconds = 30;
  hymnGroup_t group = NULL;
  CHECK_OK(hymnGroupCreate(world, ranks, n, &options, &group));
  CHECK(group != NULL);
  return group;
}

// Every second rank, given in descending order.
static size_t every_second(int size, int first, int ranks[max_ranks]) {
  size_t n = 0;
  for (int rank = size - 1; rank >= 0; --rank) {
    if (rank % 2 == first) ranks[n++] = rank;
  }
  return n;
}

static void check_translation(hymnGroup_t group, int rank, size_t n, int first) {
  int group_rank = -2, size = -1, back = -1;
  CHECK_OK(hymnGroupRank(group, &group_rank));
  CHECK_OK(hymnGroupSize(group, &size));
  CHECK(size == (int)n);
  CHECK(group_rank == (rank % 2 == first ? rank / 2 : -1));
  for (int i = 0; i < size; ++i) {
    CHECK_OK(hymnGroupToGlobal(group, i, &back));
    CHECK(back == 2 * i + first);
    CHECK_OK(hymnGroupFromGlobal(group, back, &group_rank));
    CHECK(group_rank == i);
  }
  CHECK_FAILS(hymnUsageError, "not part of group", hymnGroupToGlobal(group, size, &back));
  CHECK_FAILS(hymnUsageError, "not part of group", hymnGroupFromGlobal(group, 1 - first, &back));
}

/// Calls of who is no member: a warning, and nothing else, whatever is given.
static void check_outside(hymnGroup_t group) {
  CHECK_OK(hymnAllGatherv(NULL, NULL, NULL, hymnInt64, group, NULL));
  CHECK_OK(hymnAllToAllv(NULL, NULL, NULL, NULL, hymnInt64, group, NULL));
  CHECK_OK(hymnCollectiveList(hymnCollectiveAllToAll, NULL, NULL, hymnInt64, 0, 0, group, NULL));
  hymnWork_t work = NULL;
  CHECK_OK(hymnICollectiveList(hymnCollectiveAllGather, NULL, NULL, hymnInt64, 0, 0, group, NULL,
                               &work));
  CHECK(work != NULL);
  CHECK_OK(hymnWorkWait(work));
  CHECK_OK(hymnWorkFree(work));
}

static void test_halves(hymnWorld_t world, int rank, int size) {
  int ranks[max_ranks];
  for (int first = 0; first < (size > 1 ? 2 : 1); ++first) {
    const size_t n = every_second(size, first, ranks);
    hymnGroup_t group = make_group(world, ranks, n);
    hymnGroup_t same_ranks = make_group(world, ranks, n);
    check_translation(group, rank, n, first);
    int64_t mine = 5, sum = -1;
    CHECK_OK(hymnAllReduce(&mine, &sum, 1, hymnInt64, hymnSum, same_ranks, NULL));
    if (rank % 2 == first) {
      CHECK(sum == 5 * (int64_t)n);
      test_collectives(group);
    } else {
      CHECK(sum == -1);
      check_outside(same_ranks);
    }
    // The ends need not come in one order on all ranks.
    hymnGroup_t order[2] = {group, same_ranks};
    CHECK_OK(hymnGroupDestroy(order[rank % 3 == 0]));
    CHECK_OK(hymnGroupDestroy(order[rank % 3 == 0]));
    CHECK_OK(hymnGroupFree(order[rank % 3 != 0]));
    CHECK_FAILS(hymnUsageError, "destroy", hymnBarrier(order[rank % 3 == 0], NULL));
    CHECK_OK(hymnGroupFree(order[rank % 3 == 0]));
  }
}

static void test_bad_lists(hymnWorld_t world, int size) {
  hymnGroup_t group = NULL;
  int ranks[] = {0, 0};
  CHECK_FAILS(hymnUsageError, "twice", hymnGroupCreate(world, ranks, 2, NULL, &group));
  ranks[1] = size;
  CHECK_FAILS(hymnUsageError, "rank", hymnGroupCreate(world, ranks, 2, NULL, &group));
  CHECK_FAILS(hymnUsageError, "at least one", hymnGroupCreate(world, NULL, 0, NULL, &group));
  CHECK_FAILS(hymnUsageError, "their number is wrong",
              hymnGroupCreate(world, ranks, (size_t)-1, NULL, &group));
  CHECK_FAILS(hymnUsageError, "ranks is NULL", hymnGroupCreate(world, NULL, 2, NULL, &group));
  CHECK_FAILS(hymnUsageError, "group is NULL", hymnGroupCreate(world, ranks, 1, NULL, NULL));
  CHECK_FAILS(hymnUsageError, "world is NULL", hymnGroupCreate(NULL, ranks, 1, NULL, &group));
  hymnGroupOptions_t options = HYMN_GROUP_OPTIONS_INIT;
  options.size = 1;
  CHECK_FAILS(hymnUsageError, "hymnGroupOptions_t",
              hymnGroupCreate(world, ranks, 1, &options, &group));
  CHECK(group == NULL);
}

static void test_timeouts(hymnWorld_t world) {
  const int self = 0;
  hymnGroup_t group = make_group(world, &self, 1);
  double seconds = 0;
  CHECK_OK(hymnGroupGetTimeout(group, &seconds));
  CHECK(seconds == 30);
  CHECK_OK(hymnGroupSetTimeout(group, 0.25));
  CHECK_OK(hymnGroupGetTimeout(group, &seconds));
  CHECK(seconds == 0.25);
  CHECK_OK(hymnGroupSetTimeout(group, HYMN_TIMEOUT_NONE));
  CHECK_OK(hymnGroupGetTimeout(group, &seconds));
  CHECK(seconds == HYMN_TIMEOUT_NONE);
  CHECK_FAILS(hymnUsageError, "0 seconds", hymnGroupSetTimeout(group, 0));
  CHECK_OK(hymnGroupFree(group));
}

static void test_uses(hymnWorld_t world) {
  const int self = 0;
  int rank = -1;
  hymnGroup_t group = make_group(world, &self, 1);
  CHECK_OK(hymnGroupRank(group, &rank));
  int32_t value = 3;
  if (rank == 0) CHECK_OK(hymnAllReduce(&value, &value, 1, hymnInt32, hymnSum, group, NULL));
  const uint64_t expected = rank == 0 ? 1 : 0;
  uint64_t uses = 9;
  CHECK_OK(hymnGroupUses(group, NULL, NULL, &uses));
  CHECK(uses == expected);
  CHECK_OK(hymnGroupUses(group, "cuda_p2p", NULL, &uses));
  CHECK(uses == 0);
  CHECK_OK(hymnGroupUses(group, NULL, "all_reduce_abacus", &uses));
  CHECK(uses == 0);
  CHECK_FAILS(hymnUsageError, "group is NULL", hymnGroupUses(NULL, NULL, NULL, &uses));
  CHECK_FAILS(hymnUsageError, "uses is NULL", hymnGroupUses(group, NULL, NULL, NULL));
  CHECK_OK(hymnGroupFree(group));
}

static void test_reproducibility(hymnWorld_t world) {
  const int self = 0;
  int rank = -1;
  hymnGroupOptions_t options = HYMN_GROUP_OPTIONS_INIT;
  hymnGroup_t group = NULL;
  options.reproducibility = hymnReproducibleSize + 1;
  CHECK_FAILS(hymnUsageError, "reproducibility is 5",
              hymnGroupCreate(world, &self, 1, &options, &group));
  options.reproducibility = hymnReproducibleSize;
  CHECK_OK(hymnGroupCreate(world, &self, 1, &options, &group));
  CHECK_OK(hymnGroupRank(group, &rank));
  double value = 3;
  if (rank == 0) {
    CHECK_FAILS(hymnUnsupportedError, "order of its factors",
                hymnAllReduce(&value, &value, 1, hymnFloat64, hymnProd, group, NULL));
    CHECK_OK(hymnAllReduce(&value, &value, 1, hymnFloat64, hymnSum, group, NULL));
  }
  CHECK(value == 3);
  CHECK_OK(hymnGroupFree(group));
}

// Without GPUs the options are judged all the same, and change nothing.
static void test_gpu_options(hymnWorld_t world) {
  const int self = 0;
  hymnGroupOptions_t options = HYMN_GROUP_OPTIONS_INIT;
  hymnGroup_t group = NULL;
  options.nccl_init = hymnNcclInitBackground + 1;
  CHECK_FAILS(hymnUsageError, "nccl_init is 4", hymnGroupCreate(world, &self, 1, &options, &group));
  options.nccl_init = hymnNcclInitEager;
  options.nccl_max_ctas = 65;
  CHECK_FAILS(hymnConfigError, "max_ctas is 65",
              hymnGroupCreate(world, &self, 1, &options, &group));
  options.nccl_max_ctas = 4;
  options.nccl_min_ctas = 5;
  CHECK_FAILS(hymnConfigError, "at least 5 thread blocks",
              hymnGroupCreate(world, &self, 1, &options, &group));
  options.nccl_min_ctas = 2;
  options.nccl_cga_size = 9;
  CHECK_FAILS(hymnConfigError, "cga_size is 9", hymnGroupCreate(world, &self, 1, &options, &group));
  CHECK(group == NULL);
  options.nccl_cga_size = -1;
  options.nccl_net = "Socket";
  options.nccl_blocking = 1;
  options.nccl_reduce_in_float32 = 1;
  options.high_priority_stream = 1;
  CHECK_OK(hymnGroupCreate(world, &self, 1, &options, &group));
  CHECK_OK(hymnBarrier(group, NULL));
  CHECK_OK(hymnGroupFree(group));
  // Members alone hear of it.
  const int nowhere = 4096;
  int rank = -1;
  CHECK_OK(hymnWorldRank(world, &rank));
  options.gpu = &nowhere;
  if (rank == self) {
    CHECK_FAILS(hymnUsageError, "GroupOptions::gpu is 4096",
                hymnGroupCreate(world, &self, 1, &options, &group));
    CHECK(group == NULL);
  } else {
    CHECK_OK(hymnGroupCreate(world, &self, 1, &options, &group));
    CHECK_OK(hymnGroupFree(group));
  }
  options.gpu = NULL;
  // What a program was compiled with that knows none of them.
  options.size = offsetof(hymnGroupOptions_t, nccl_init);
  options.nccl_init = 99;
  CHECK_OK(hymnGroupCreate(world, &self, 1, &options, &group));
  CHECK_OK(hymnGroupFree(group));
  int gpu = -2;
  CHECK_OK(hymnWorldGpu(world, &gpu));
  CHECK(gpu >= -1);
  CHECK_FAILS(hymnUsageError, "gpu is NULL", hymnWorldGpu(world, NULL));
}

static void check_sum(hymnGroup_t group, int expected) {
  int64_t sum = 1;
  CHECK_OK(hymnAllReduce(&sum, &sum, 1, hymnInt64, hymnSum, group, NULL));
  CHECK(sum == expected);
}

// Only the last two ranks call; rank 0 asks in vain.
static void test_local_sync(hymnWorld_t world, int rank, int size) {
  const int first = size > 1 ? size - 2 : 0;
  const int ranks[] = {size - 1, first};
  const size_t n = size > 1 ? 2 : 1;
  hymnGroupOptions_t options = HYMN_GROUP_OPTIONS_INIT;
  options.local_sync = 1;
  hymnGroup_t group = NULL;
  if (rank >= first) {
    CHECK_OK(hymnGroupCreate(world, ranks, n, &options, &group));
    check_sum(group, (int)n);
    CHECK_OK(hymnGroupFree(group));
  } else if (rank == 0) {
    CHECK_OK(hymnGroupCreate(world, ranks, n, &options, &group));
    CHECK(group == NULL);
  }
}

static void test_tags(hymnWorld_t world, int rank, int size) {
  int ranks[max_ranks];
  for (int i = 0; i < size; ++i) ranks[i] = i;
  const size_t n = (size_t)size;
  const char* tag = NULL;
  hymnGroup_t all = NULL, found = NULL, own = NULL;
  CHECK_OK(hymnWorldGroup(world, &all));
  CHECK_OK(hymnGroupTag(all, &tag));
  CHECK(strcmp(tag, "") == 0);
  CHECK_OK(hymnGroupFind(world, "", ranks, n, &found));
  check_sum(found, size);
  CHECK_OK(hymnGroupFree(found));
  CHECK_OK(hymnGroupFind(world, "c", ranks, n, &found));
  CHECK(found == NULL);
  hymnGroupOptions_t options = HYMN_GROUP_OPTIONS_INIT;
  options.tag = "c";
  CHECK_OK(hymnGroupCreate(world, ranks, n, &options, &own));
  CHECK_OK(hymnGroupFree(own));  // the handle: the group lives
  CHECK_OK(hymnGroupFind(world, "c", ranks, n, &found));
  check_sum(found, size);
  CHECK_OK(hymnGroupTag(found, &tag));
  CHECK(strcmp(tag, "c") == 0);
  CHECK_OK(hymnGroupDestroy(found));
  CHECK_OK(hymnGroupFree(found));
  CHECK_OK(hymnGroupFind(world, "c", ranks, n, &found));
  CHECK(found == NULL);
  CHECK_OK(hymnGroupFindOrCreate(world, "one", ranks, n, 1, NULL, &own));
  int member = -1;
  CHECK_OK(hymnGroupToGlobal(own, 0, &member));
  CHECK(member == rank);
  CHECK_OK(hymnGroupFree(own));
  CHECK_FAILS(hymnUsageError, "are not groups of",
              hymnGroupFindOrCreate(world, "one", ranks, n, n + 1, NULL, &own));
  CHECK_FAILS(hymnUsageError, "tag is NULL", hymnGroupFind(world, NULL, ranks, n, &found));
  CHECK_FAILS(hymnUsageError, "tag is NULL", hymnGroupTag(all, NULL));
}

// Rank 0 gives up a group in which the others wait for it.
static void test_abort(hymnWorld_t world, int rank, int size) {
  int ranks[max_ranks];
  for (int i = 0; i < size; ++i) ranks[i] = i;
  hymnGroup_t group = make_group(world, ranks, (size_t)size);
  CHECK_FAILS(hymnUsageError, "reason is NULL", hymnGroupAbort(group, NULL));
  CHECK_FAILS(hymnUsageError, "group is NULL", hymnGroupAbort(NULL, "enough"));
  if (rank == 0) CHECK_OK(hymnGroupAbort(group, "it was enough"));
  CHECK_FAILS(hymnAbortedError, "it was enough", hymnBarrier(group, NULL));
  CHECK_OK(hymnGroupFree(group));
}

void test_groups(hymnWorld_t world) {
  int rank = -1, size = -1;
  CHECK_OK(hymnWorldRank(world, &rank));
  CHECK_OK(hymnWorldSize(world, &size));
  test_halves(world, rank, size);
  test_bad_lists(world, size);
  test_timeouts(world);
  test_uses(world);
  test_reproducibility(world);
  test_gpu_options(world);
  test_local_sync(world, rank, size);
  test_tags(world, rank, size);
  test_abort(world, rank, size);
}
