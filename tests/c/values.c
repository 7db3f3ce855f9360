// Structs, operations of the program's own, 16-bit integers, and groups that are split, from C.
#include <math.h>

#include "check.h"

typedef struct {
  double value;
  int32_t rank;
  int32_t steps;
  int64_t spare;
} Row;

// Keeps the greater one, and counts how often it was called with rows in the order of the ranks.
static void keep_greater(void* inout, const void* in, size_t count, void* context) {
  const int64_t* weight = context;
  for (size_t i = 0; i < count; ++i) {
    Row lower, higher;
    memcpy(&lower, (char*)inout + i * sizeof lower, sizeof lower);
    memcpy(&higher, (const char*)in + i * sizeof higher, sizeof higher);
    CHECK(lower.rank < higher.rank && *weight == 3);
    if (higher.value > lower.value) lower.value = higher.value;
    lower.rank = higher.rank;
    lower.steps += higher.steps;
    lower.spare += *weight;
    memcpy((char*)inout + i * sizeof lower, &lower, sizeof lower);
  }
}

static void test_own_operation(hymnGroup_t group, int rank, int size) {
  static int64_t weight = 3;  // ranks may be threads: all have the same
  hymnOp_t op = hymnSum;
  CHECK_OK(hymnOpCreate(keep_greater, &weight, sizeof(Row), 0, &op));
  Row mine[5], out[5];
  memset(mine, 0, sizeof mine);
  for (int i = 0; i < 5; ++i)
    mine[i] = (Row){.value = rank == i ? 100.0 : rank, .rank = rank, .steps = 1};
  CHECK_OK(hymnAllReduce(mine, out, 5, HYMN_VALUE(sizeof(Row)), op, group, NULL));
  for (int i = 0; i < 5; ++i)
    CHECK(out[i].value == (i < size ? 100.0 : size - 1) && out[i].rank == size - 1 &&
          out[i].steps == size && out[i].spare == 3 * (size - 1));
  CHECK_OK(hymnScan(mine, out, 5, HYMN_VALUE(sizeof(Row)), op, group, NULL));
  CHECK(out[4].steps == rank + 1 && out[4].rank == rank);
  hymnWork_t work = NULL;
  CHECK_OK(hymnIAllReduce(mine, out, 5, HYMN_VALUE(sizeof(Row)), op, group, NULL, &work));
  CHECK_OK(hymnWorkWait(work));
  CHECK_OK(hymnWorkFree(work));
  CHECK(out[0].steps == size);
  CHECK_FAILS(hymnUsageError, "of values of 24 bytes",
              hymnAllReduce(mine, out, 5, HYMN_VALUE(16), op, group, NULL));
  CHECK_FAILS(hymnUnsupportedError, "only a custom reduction",
              hymnAllReduce(mine, out, 5, HYMN_VALUE(sizeof(Row)), hymnSum, group, NULL));
  CHECK_FAILS(hymnUsageError, "not a hymnDataType_t",
              hymnAllReduce(mine, out, 5, HYMN_VALUE(0), op, group, NULL));
  CHECK_OK(hymnBarrier(group, NULL));
  const hymnOp_t freed = op;
  CHECK_OK(hymnOpFree(&op));
  CHECK(op == hymnSum);
  op = freed;
  CHECK_FAILS(hymnUsageError, "no operation that lives", hymnOpFree(&op));
  CHECK_FAILS(hymnUsageError, "is not a hymnOp_t",
              hymnAllReduce(mine, out, 5, HYMN_VALUE(sizeof(Row)), freed, group, NULL));
  CHECK_FAILS(hymnUsageError, "function is NULL", hymnOpCreate(NULL, NULL, 8, 1, &op));
  CHECK_FAILS(hymnUsageError, "op is NULL", hymnOpCreate(keep_greater, NULL, 8, 1, NULL));
  CHECK_FAILS(hymnUsageError, "0 bytes", hymnOpCreate(keep_greater, NULL, 0, 1, &op));
}

typedef struct {
  double value;
  int64_t index;
} Place;

// Rank 1 of 3 has the greatest, and the first and the last one the least.
static void test_located(hymnGroup_t group, int rank, int size) {
  hymnOp_t least = hymnSum, greatest = hymnSum, other = hymnSum;
  CHECK_OK(hymnOpMinLoc(hymnFloat64, &least));
  CHECK_OK(hymnOpMaxLoc(hymnFloat64, &greatest));
  CHECK_OK(hymnOpMaxLoc(hymnInt16, &other));
  CHECK(least != greatest && other != greatest);
  const int off = 2 * rank - (size - 1);
  const Place mine = {.value = off < 0 ? off : -off, .index = 100 - rank};
  Place found = mine;
  CHECK_OK(hymnAllReduce(&found, &found, 1, HYMN_VALUE(sizeof found), least, group, NULL));
  CHECK(found.value == -(size - 1.0) && found.index == 100 - (size - 1));
  CHECK_OK(hymnAllReduce(&mine, &found, 1, HYMN_VALUE(sizeof found), greatest, group, NULL));
  CHECK(found.value == -((size - 1) % 2) && found.index == 100 - size / 2);
  struct {
    int16_t value;
    int64_t index;
  } small = {.value = (int16_t)(rank - 300), .index = rank};
  CHECK_OK(hymnAllReduce(&small, &small, 1, HYMN_VALUE(sizeof small), other, group, NULL));
  CHECK(small.value == size - 301 && small.index == size - 1);
  found = (Place){.value = rank == 0 ? 5.0 : (double)NAN, .index = rank};
  CHECK_OK(hymnAllReduce(&found, &found, 1, HYMN_VALUE(sizeof found), least, group, NULL));
  CHECK(size == 1 ? found.value == 5.0 : found.value != found.value && found.index == 1);
  CHECK_FAILS(hymnUsageError, "of values of 16 bytes",
              hymnAllReduce(&found, &found, 1, hymnFloat64, least, group, NULL));
  CHECK_FAILS(hymnUnsupportedError, "of complex64", hymnOpMinLoc(hymnComplex64, &other));
  CHECK_FAILS(hymnUnsupportedError, "of value", hymnOpMinLoc(HYMN_VALUE(8), &other));
  CHECK_FAILS(hymnUsageError, "not a hymnDataType_t", hymnOpMaxLoc((hymnDataType_t)77, &other));
  CHECK_FAILS(hymnUsageError, "op is NULL", hymnOpMaxLoc(hymnFloat64, NULL));
  CHECK_FAILS(hymnUsageError, "no operation that lives", hymnOpFree(&least));
}

static void test_moved(hymnGroup_t group, int rank, int size) {
  Row row = {.value = rank, .rank = rank};
  CHECK_OK(hymnBroadcast(&row, 1, HYMN_VALUE(sizeof row), size - 1, group, NULL));
  CHECK(row.rank == size - 1);
}

static void test_short_integers(hymnGroup_t group, int rank, int size) {
  int16_t small = (int16_t)(-rank - 1);
  uint16_t large = 65535;
  CHECK_OK(hymnAllReduce(&small, &small, 1, hymnInt16, hymnMin, group, NULL));
  CHECK(small == -size);
  CHECK_OK(hymnAllReduce(&large, &large, 1, hymnUint16, hymnSum, group, NULL));
  CHECK(large == (uint16_t)(65536 - size));
}

static void test_split(hymnGroup_t group, int rank, int size) {
  hymnGroup_t part = NULL;
  CHECK_OK(hymnGroupSplit(group, rank == 0 ? HYMN_NO_COLOR : 4, -rank, NULL, &part));
  CHECK((part == NULL) == (rank == 0));
  if (part != NULL) {
    int place = -1, members = -1, first = -1;
    CHECK_OK(hymnGroupRank(part, &place));
    CHECK_OK(hymnGroupSize(part, &members));
    CHECK_OK(hymnGroupToGlobal(part, 0, &first));
    CHECK(place == size - 1 - rank && members == size - 1 && first == size - 1);
    CHECK_OK(hymnGroupFree(part));
  }
  CHECK_FAILS(hymnUsageError, "-5 is no color", hymnGroupSplit(group, -5, 0, NULL, &part));
  CHECK_FAILS(hymnUsageError, "split is NULL", hymnGroupSplit(group, 0, 0, NULL, NULL));
}

void test_values(hymnWorld_t world) {
  int rank = -1, size = -1;
  hymnGroup_t group = NULL;
  CHECK_OK(hymnWorldRank(world, &rank));
  CHECK_OK(hymnWorldSize(world, &size));
  CHECK_OK(hymnWorldGroup(world, &group));
  test_own_operation(group, rank, size);
  test_located(group, rank, size);
  test_moved(group, rank, size);
  test_short_integers(group, rank, size);
  test_split(group, rank, size);
  CHECK_OK(hymnBarrier(group, NULL));
}
