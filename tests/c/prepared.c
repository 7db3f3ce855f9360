// Calls that are prepared once, from C.
#include "hymn/hymn_prepared.h"

#include "tests/c/check.h"

enum { rounds = 5, tag = 3 };

static void check_collective(hymnGroup_t group, int size) {
  int64_t value = 0;
  const hymnCollectiveCall_t call = {
      .recvbuf = &value, .sendbuf = &value, .count = 1, .dtype = hymnInt64, .op = hymnSum};
  hymnPrepared_t sum = NULL;
  hymnWork_t work = NULL;
  CHECK_OK(hymnPrepareCollective(hymnCollectiveAllReduce, &call, group, NULL, &sum));
  for (int round = 0; round < rounds; ++round) {
    value = round;
    CHECK_OK(hymnPreparedRun(sum, NULL));
    CHECK(value == (int64_t)round * size);
    CHECK_OK(hymnPreparedStart(sum, &work));
    CHECK_OK(hymnWorkWait(work));
    CHECK_OK(hymnWorkFree(work));
    CHECK(value == (int64_t)round * size * size);
  }
  CHECK_OK(hymnPreparedFree(sum));
}

static void check_messages(hymnGroup_t group, int rank, int size) {
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  int32_t out = 0, in[2] = {-1, -1};
  hymnPrepared_t send = NULL, recv = NULL;
  hymnWork_t sent = NULL;
  hymnRecvStatus_t status = {-1, -1, 0};
  CHECK_OK(hymnPrepareSend(&out, 1, hymnInt32, next, tag, group, NULL, &send));
  CHECK_OK(hymnPrepareRecv(in, 2, hymnInt32, before, tag, group, NULL, &recv));
  for (int round = 0; round < rounds; ++round) {
    out = 10 * rank + round;
    CHECK_OK(hymnPreparedStart(send, &sent));
    CHECK_OK(hymnPreparedRun(recv, &status));
    CHECK_OK(hymnWorkWait(sent));
    CHECK_OK(hymnWorkFree(sent));
    CHECK(status.source == before && status.count == 1 && in[0] == 10 * before + round);
  }
  CHECK_OK(hymnPreparedFree(send));
  CHECK_OK(hymnPreparedFree(recv));
}

void test_prepared(hymnWorld_t world) {
  hymnGroup_t group = NULL;
  hymnPrepared_t prepared = NULL;
  int rank = -1, size = -1, value = 0;
  CHECK_OK(hymnWorldGroup(world, &group));
  CHECK_OK(hymnWorldRank(world, &rank));
  CHECK_OK(hymnWorldSize(world, &size));
  check_collective(group, size);
  if (size > 1) check_messages(group, rank, size);
  CHECK_FAILS(hymnUsageError, "itself",
              hymnPrepareSend(&value, 1, hymnInt32, rank, tag, group, NULL, &prepared));
  CHECK(prepared == NULL);
  CHECK_FAILS(hymnUsageError, "call is NULL",
              hymnPrepareCollective(hymnCollectiveBroadcast, NULL, group, NULL, &prepared));
  CHECK_FAILS(hymnUsageError, "prepared is NULL", hymnPreparedRun(NULL, NULL));
  CHECK_FAILS(hymnUsageError, "prepared is NULL", hymnPreparedFree(NULL));
}
