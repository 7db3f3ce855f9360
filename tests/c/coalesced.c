// Several collectives as one, and buffers registered with NCCL, which groups on the host refuse.
#include "hymn/hymn_coalesced.h"

#include "check.h"
#include "hymn/hymn_buffer.h"

enum { max_ranks = 16, calls = 2 };

typedef struct {
  hymnGroup_t group;
  int rank, size;
} Place;

// Blocking, or started with a work that completes when all have.
static void carry_out(const Place* at, int asynchronous, hymnCollective_t collective,
                      const hymnCollectiveCall_t* all) {
  if (!asynchronous) {
    CHECK_OK(hymnCoalesced(collective, all, calls, at->group, NULL));
    return;
  }
  hymnWork_t work = NULL;
  CHECK_OK(hymnICoalesced(collective, all, calls, at->group, NULL, &work));
  CHECK_OK(hymnWorkWait(work));
  CHECK_OK(hymnWorkFree(work));
}

// Of different types, sizes and reductions, the second one in place.
static void test_reductions(const Place* at, int asynchronous) {
  const int n = at->size, last = n - 1;
  const int64_t in = at->rank + 1;
  int64_t out = -1;
  float most[2] = {(float)at->rank, -0.5f};
  const hymnCollectiveCall_t all[calls] = {{&in, &out, 1, hymnInt64, hymnOpPremulSum(2), last},
                                           {most, most, 2, hymnFloat32, hymnMax, last}};
  carry_out(at, asynchronous, hymnCollectiveAllReduce, all);
  CHECK(out == n * (n + 1));
  CHECK(most[0] == (float)last && most[1] == -0.5f);
  out = -1;
  most[0] = (float)at->rank;
  carry_out(at, asynchronous, hymnCollectiveReduce, all);
  CHECK(out == (at->rank == last ? n * (n + 1) : -1));
  if (at->rank == last) CHECK(most[0] == (float)last);
}

// Rank i's block for rank j is 100 i + j, and its opposite in the second call.
static void test_blocks(const Place* at, int asynchronous) {
  int32_t in[calls][max_ranks], out[calls][max_ranks], own[calls];
  hymnCollectiveCall_t gathers[calls], scatters[calls], exchanges[calls], sums[calls];
  for (int c = 0; c < calls; ++c) {
    const int sign = c == 0 ? 1 : -1;
    for (int to = 0; to < at->size; ++to) in[c][to] = sign * (100 * at->rank + to);
    gathers[c] = (hymnCollectiveCall_t){&in[c][0], out[c], 1, hymnInt32, 0, 0};
    scatters[c] = (hymnCollectiveCall_t){in[c], &own[c], 1, hymnInt32, 0, 0};
    exchanges[c] = (hymnCollectiveCall_t){in[c], out[c], 1, hymnInt32, 0, 0};
    sums[c] = (hymnCollectiveCall_t){in[c], &own[c], 1, hymnInt32, hymnSum, 0};
  }
  carry_out(at, asynchronous, hymnCollectiveAllGather, gathers);
  for (int from = 0; from < at->size; ++from)
    CHECK(out[0][from] == 100 * from && out[1][from] == -100 * from);
  carry_out(at, asynchronous, hymnCollectiveAllToAll, exchanges);
  for (int from = 0; from < at->size; ++from)
    CHECK(out[0][from] == 100 * from + at->rank && out[1][from] == -100 * from - at->rank);
  carry_out(at, asynchronous, hymnCollectiveGather, gathers);
  if (at->rank == 0) CHECK(out[1][at->size - 1] == -100 * (at->size - 1));
  carry_out(at, asynchronous, hymnCollectiveScatter, scatters);
  CHECK(own[0] == at->rank && own[1] == -at->rank);
  carry_out(at, asynchronous, hymnCollectiveReduceScatter, sums);
  const int sum = 100 * at->size * (at->size - 1) / 2 + at->size * at->rank;
  CHECK(own[0] == sum && own[1] == -sum);
}

static void test_others(const Place* at, int asynchronous) {
  const int last = at->size - 1;
  int8_t small = at->rank == last ? 7 : 0;
  double large = at->rank == last ? 0.25 : 0;
  const hymnCollectiveCall_t all[calls] = {{NULL, &small, 1, hymnInt8, 0, last},
                                           {&large, &large, 1, hymnFloat64, 0, last}};
  carry_out(at, asynchronous, hymnCollectiveBroadcast, all);
  CHECK(small == 7 && large == 0.25);
  const hymnCollectiveCall_t nothing[calls] = {{NULL, NULL, 0, hymnInt8, 0, 0},
                                               {NULL, NULL, 0, hymnInt8, 0, 0}};
  carry_out(at, asynchronous, hymnCollectiveBarrier, nothing);
}

static void test_misuse(const Place* at) {
  int32_t in = 1, out = -1;
  hymnWork_t work = (hymnWork_t)&in;
  hymnCollectiveCall_t all[calls] = {{&in, &out, 1, hymnInt32, hymnSum, 0},
                                     {&in, &out, 1, hymnInt32, 9, 0}};
  CHECK_FAILS(hymnUsageError, "group is NULL",
              hymnCoalesced(hymnCollectiveAllReduce, all, 1, NULL, NULL));
  CHECK_FAILS(hymnUsageError, "calls is NULL",
              hymnCoalesced(hymnCollectiveAllReduce, NULL, 1, at->group, NULL));
  CHECK_FAILS(hymnUsageError, "nothing to coalesce",
              hymnCoalesced(hymnCollectiveAllReduce, NULL, 0, at->group, NULL));
  CHECK_FAILS(hymnUsageError, "15 is not a hymnCollective_t",
              hymnCoalesced((hymnCollective_t)15, all, 1, at->group, NULL));
  CHECK_FAILS(hymnUsageError, "not its recvbuf",
              hymnCoalesced(hymnCollectiveBroadcast, all, 1, at->group, NULL));
  CHECK_FAILS(hymnUsageError, "work is NULL",
              hymnICoalesced(hymnCollectiveAllReduce, all, 1, at->group, NULL, NULL));
  // The first one is fine, and is not started.
  CHECK_FAILS(hymnUsageError, "9 is not a hymnOp_t",
              hymnICoalesced(hymnCollectiveAllReduce, all, 2, at->group, NULL, &work));
  all[1] = (hymnCollectiveCall_t){NULL, &out, 1, hymnInt32, hymnSum, 0};
  CHECK_FAILS(hymnUsageError, "null",
              hymnICoalesced(hymnCollectiveAllReduce, all, 2, at->group, NULL, &work));
  CHECK(work == NULL && out == -1);
}

static void test_buffers(const Place* at) {
  int32_t value = 1;
  int known = -1;
  size_t bytes = 0;
  void* data = NULL;
  hymnBuffer_t buffer = (hymnBuffer_t)&value;
  CHECK_FAILS(hymnUnsupportedError, "NCCL does not carry this group",
              hymnBufferRegister(at->group, &value, 4, hymnRegistrationLocal, &buffer));
  CHECK_FAILS(hymnUnsupportedError, "NCCL does not carry this group",
              hymnBufferAllocate(at->group, 4, hymnRegistrationWindow, &buffer));
  CHECK(buffer == NULL);
  CHECK_FAILS(hymnUsageError, "3 is not a hymnRegistration_t",
              hymnBufferAllocate(at->group, 4, (hymnRegistration_t)3, &buffer));
  CHECK_FAILS(hymnUsageError, "group is NULL",
              hymnBufferRegister(NULL, &value, 4, hymnRegistrationLocal, &buffer));
  CHECK_FAILS(hymnUsageError, "buffer is NULL",
              hymnBufferAllocate(at->group, 4, hymnRegistrationLocal, NULL));
  CHECK_FAILS(hymnUsageError, "buffer is NULL", hymnBufferData(NULL, &data));
  CHECK_FAILS(hymnUsageError, "buffer is NULL", hymnBufferBytes(NULL, &bytes));
  CHECK_FAILS(hymnUsageError, "buffer is NULL", hymnBufferIsRegistered(NULL, &known));
  CHECK_FAILS(hymnUsageError, "buffer is NULL", hymnBufferFree(NULL));
}

void test_coalesced(hymnWorld_t world) {
  Place at = {NULL, -1, -1};
  CHECK_OK(hymnWorldGroup(world, &at.group));
  CHECK_OK(hymnWorldRank(world, &at.rank));
  CHECK_OK(hymnWorldSize(world, &at.size));
  for (int asynchronous = 0; asynchronous < 2; ++asynchronous) {
    test_reductions(&at, asynchronous);
    test_blocks(&at, asynchronous);
    test_others(&at, asynchronous);
  }
  test_misuse(&at);
  test_buffers(&at);
  // Nobody may leave before all have made their wrong calls.
  CHECK_OK(hymnBarrier(at.group, NULL));
}
