// Wrong calls of the C API: each has its code and a text that names the function, sends nothing,
// and leaves everything usable.
#include <math.h>

#include "check.h"

static void test_null_handles(hymnGroup_t group) {
  int value = 0;
  double seconds = 0;
  hymnResult_t error = hymnSuccess;
  hymnRecvStatus_t status;
  int32_t x = 0;
  CHECK_FAILS(hymnUsageError, "group is NULL", hymnBarrier(NULL, NULL));
  CHECK_FAILS(hymnUsageError, "group is NULL",
              hymnAllReduce(&x, &x, 1, hymnInt32, hymnSum, NULL, NULL));
  CHECK_FAILS(hymnUsageError, "group is NULL", hymnGroupRank(NULL, &value));
  CHECK_FAILS(hymnUsageError, "group_rank is NULL", hymnGroupRank(group, NULL));
  CHECK_FAILS(hymnUsageError, "group is NULL", hymnGroupSize(NULL, &value));
  CHECK_FAILS(hymnUsageError, "group is NULL", hymnGroupToGlobal(NULL, 0, &value));
  CHECK_FAILS(hymnUsageError, "group is NULL", hymnGroupFromGlobal(NULL, 0, &value));
  CHECK_FAILS(hymnUsageError, "group is NULL", hymnGroupGetTimeout(NULL, &seconds));
  CHECK_FAILS(hymnUsageError, "group is NULL", hymnGroupSetTimeout(NULL, 1));
  CHECK_FAILS(hymnUsageError, "NaN", hymnGroupSetTimeout(group, NAN));
  CHECK_FAILS(hymnUsageError, "group is NULL", hymnGroupDestroy(NULL));
  CHECK_FAILS(hymnUsageError, "group is NULL", hymnGroupFree(NULL));
  CHECK_FAILS(hymnUsageError, "world is NULL", hymnWorldRank(NULL, &value));
  CHECK_FAILS(hymnUsageError, "world is NULL", hymnWorldGroup(NULL, &group));
  CHECK_FAILS(hymnUsageError, "work is NULL", hymnWorkTest(NULL, &value));
  CHECK_FAILS(hymnUsageError, "work is NULL", hymnWorkWait(NULL));
  CHECK_FAILS(hymnUsageError, "work is NULL", hymnWorkWaitTimeout(NULL, 1));
  CHECK_FAILS(hymnUsageError, "work is NULL", hymnWorkWaitOn(NULL, NULL));
  CHECK_FAILS(hymnUsageError, "work is NULL", hymnWorkError(NULL, &error));
  CHECK_FAILS(hymnUsageError, "work is NULL", hymnWorkStatus(NULL, 0, &status));
  CHECK_FAILS(hymnUsageError, "work is NULL", hymnWorkFree(NULL));
}

static void test_bad_arguments(hymnGroup_t group, int size) {
  int32_t in[2] = {1, 2}, out[2] = {0, 0};
  float single = 1;
  hymnWork_t work = (hymnWork_t)&single;
  CHECK_FAILS(hymnUnsupportedError, "stream",
              hymnAllReduce(in, out, 1, hymnInt32, hymnSum, group, &single));
  CHECK_FAILS(hymnUsageError, "hymnDataType_t",
              hymnAllReduce(in, out, 1, (hymnDataType_t)17, hymnSum, group, NULL));
  CHECK_FAILS(hymnUsageError, "9 is not a hymnOp_t",
              hymnAllReduce(in, out, 1, hymnInt32, 99, group, NULL));
  CHECK_FAILS(hymnUsageError, "12345 is not a hymnOp_t",
              hymnAllReduce(in, out, 1, hymnInt32, 12345, group, NULL));
  CHECK_FAILS(hymnUsageError, "-1 is not a hymnOp_t",
              hymnAllReduce(in, out, 1, hymnInt32, (hymnOp_t)-1, group, NULL));
  CHECK_FAILS(hymnUsageError, "more than memory can hold",
              hymnAllReduce(in, out, (size_t)-1, hymnInt32, hymnSum, group, NULL));
  CHECK_FAILS(hymnUsageError, "more than memory can hold",
              hymnAllGather(in, out, SIZE_MAX / 2, hymnInt32, group, NULL));
  CHECK_FAILS(hymnUsageError, "null", hymnAllReduce(NULL, out, 2, hymnInt32, hymnSum, group, NULL));
  CHECK_FAILS(hymnUsageError, "overlap",
              hymnAllReduce(in, (char*)in + 2, 1, hymnInt32, hymnSum, group, NULL));
  CHECK_FAILS(hymnUnsupportedError, "float",
              hymnAllReduce(&single, &single, 1, hymnFloat32, hymnBor, group, NULL));
  CHECK_FAILS(hymnUnsupportedError, "float8",
              hymnAllReduce(in, out, 1, hymnFloat8e5m2, hymnSum, group, NULL));
  CHECK_FAILS(hymnUsageError, "0.5",
              hymnAllReduce(in, out, 1, hymnInt32, hymnOpPremulSum(0.5), group, NULL));
  CHECK_FAILS(hymnUsageError, "not part of group",
              hymnBroadcast(in, 1, hymnInt32, size, group, NULL));
  CHECK_FAILS(hymnUsageError, "counts is NULL",
              hymnAllGatherv(in, out, NULL, hymnInt32, group, NULL));
  const hymnBlock_t own = {in, 1};
  CHECK_FAILS(
      hymnUsageError, "recvs is NULL",
      hymnCollectiveList(hymnCollectiveAllGather, &own, NULL, hymnInt32, 0, 0, group, NULL));
  CHECK_FAILS(
      hymnUsageError, "sends is NULL",
      hymnCollectiveList(hymnCollectiveAllGather, NULL, &own, hymnInt32, 0, 0, group, NULL));
  CHECK_FAILS(
      hymnUsageError, "no blocks of given sizes",
      hymnCollectiveList(hymnCollectiveAllReduce, &own, &own, hymnInt32, hymnSum, 0, group, NULL));
  CHECK_FAILS(hymnUsageError, "work is NULL",
              hymnIAllReduce(in, out, 1, hymnInt32, hymnSum, group, NULL, NULL));
  CHECK_FAILS(hymnUsageError, "null",
              hymnIAllReduce(NULL, out, 2, hymnInt32, hymnSum, group, NULL, &work));
  CHECK(work == NULL);
  const int gpu = 0;
  CHECK_FAILS(hymnUsageError, "Invalid function argument",
              hymnBarrierOnDevices(NULL, 2, group, NULL));
  CHECK_FAILS(hymnUnsupportedError, "works on no GPU", hymnBarrierOnDevices(&gpu, 1, group, NULL));
  CHECK_FAILS(hymnUsageError, "work is NULL", hymnIBarrierOnDevices(&gpu, 1, group, NULL, NULL));
  CHECK_OK(hymnBarrierOnDevices(NULL, 0, group, NULL));
  CHECK_OK(hymnIBarrierOnDevices(NULL, 0, group, NULL, &work));
  CHECK_OK(hymnWorkWait(work));
  CHECK_OK(hymnWorkFree(work));
  CHECK(out[0] == 0 && out[1] == 0);
}

static void test_bad_messages(hymnGroup_t group, int rank, int size) {
  int32_t in = 1;
  hymnWork_t work = NULL;
  CHECK_FAILS(hymnUsageError, "itself", hymnSend(&in, 1, hymnInt32, rank, 0, group, NULL));
  CHECK_FAILS(hymnUsageError, "not part of group",
              hymnSend(&in, 1, hymnInt32, size, 0, group, NULL));
  CHECK_FAILS(hymnUsageError, "tag",
              hymnSend(&in, 1, hymnInt32, (rank + 1) % size, HYMN_MAX_TAG + 1, group, NULL));
  const hymnP2POp_t both = {&in, &in, 1, hymnInt32, 0, 0},
                    neither = {NULL, NULL, 0, hymnInt8, 0, 0};
  CHECK_FAILS(hymnUsageError, "both", hymnIBatch(&both, 1, group, NULL, &work));
  CHECK_FAILS(hymnUsageError, "neither", hymnIBatch(&neither, 1, group, NULL, &work));
  CHECK_FAILS(hymnUsageError, "ops is NULL", hymnIBatch(NULL, 1, group, NULL, &work));
  CHECK(work == NULL);
}

void test_errors(hymnWorld_t world) {
  int rank = -1, size = -1;
  hymnGroup_t group = NULL;
  CHECK_OK(hymnWorldRank(world, &rank));
  CHECK_OK(hymnWorldSize(world, &size));
  CHECK_OK(hymnWorldGroup(world, &group));
  test_null_handles(group);
  test_bad_arguments(group, size);
  if (size > 1) test_bad_messages(group, rank, size);

  int32_t one = 1;
  CHECK_OK(hymnAllReduce(&one, &one, 1, hymnInt32, hymnSum, group, NULL));
  CHECK(one == size);
}
