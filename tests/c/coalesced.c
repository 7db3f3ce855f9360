// Several collectives as one, and buffers registered with NCCL, which groups on the host refuse.
#include "hymn/hymn_coalesced.h"

#include "check.h"
#include "hymn/hymn_buffer.h"

enum { max_ranks = 16, calls = 2 };

typedef struct {
  hymnGroup_t group;
  int rank, size;
} Member;

// Blocking, or started with a work that completes when all have.
static void carry_out(const Member* at, int asynchronous, hymnCollective_t collective,
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

// Of different sizes, the second one in place.
static void test_reductions(const Member* at, int asynchronous) {
  const int n = at->size, last = n - 1;
  const int64_t in = at->rank + 1;
  int64_t out = -1;
  int64_t twice[2] = {at->rank, 5};
  const hymnCollectiveCall_t all[calls] = {{&in, &out, 1, hymnInt64, hymnOpPremulSum(2), last},
                                           {twice, twice, 2, hymnInt64, hymnOpPremulSum(2), last}};
  carry_out(at, asynchronous, hymnCollectiveAllReduce, all);
  CHECK(out == n * (n + 1));
  CHECK(twice[0] == n * last && twice[1] == 10 * n);
  float most[2] = {(float)at->rank, -0.5f}, least[1] = {(float)-at->rank};
  const hymnCollectiveCall_t others[calls] = {{most, most, 2, hymnFloat32, hymnMax, last},
                                              {least, least, 1, hymnFloat32, hymnMax, last}};
  carry_out(at, asynchronous, hymnCollectiveReduce, others);
  if (at->rank == last) CHECK(most[0] == (float)last && most[1] == -0.5f && least[0] == 0);
}

// Calls between the beginning and the end are one.
static void test_scope(const Member* at) {
  int32_t first = 1, second[3] = {2, 2, 2};
  CHECK_OK(hymnCoalesceBegin(at->group, NULL));
  CHECK_OK(hymnAllReduce(&first, &first, 1, hymnInt32, hymnSum, at->group, NULL));
  hymnWork_t inside = NULL;
  CHECK_OK(hymnIAllReduce(second, second, 3, hymnInt32, hymnSum, at->group, NULL, &inside));
  CHECK_FAILS(hymnUsageError, "inside a coalescing scope", hymnWorkWait(inside));
  CHECK_OK(hymnWorkFree(inside));
  CHECK(first == 1);
  CHECK_FAILS(hymnUsageError, "do not nest", hymnCoalesceBegin(at->group, NULL));
  CHECK_FAILS(hymnUsageError, "of one kind", hymnBarrier(at->group, NULL));
  hymnWork_t work = NULL;
  CHECK_OK(hymnICoalesceEnd(at->group, &work));
  CHECK_OK(hymnWorkWait(work));
  CHECK_OK(hymnWorkFree(work));
  CHECK(first == at->size && second[2] == 2 * at->size);
  CHECK_FAILS(hymnUsageError, "has begun no coalescing scope", hymnCoalesceEnd(at->group));
  CHECK_OK(hymnCoalesceBegin(at->group, NULL));
  CHECK_OK(hymnAllReduce(&first, &first, 1, hymnInt32, hymnSum, at->group, NULL));
  CHECK_OK(hymnCoalesceCancel(at->group));
  CHECK(first == at->size);
  first = 1;
  CHECK_OK(hymnCoalesceBegin(at->group, NULL));
  CHECK_OK(hymnAllReduce(&first, &first, 1, hymnInt32, hymnSum, at->group, NULL));
  CHECK_OK(hymnCoalesceEnd(at->group));
  CHECK(first == at->size);
}

// Rank i's block for rank j is 100 i + j, and its opposite in the second call.
static void test_blocks(const Member* at, int asynchronous) {
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

static void test_others(const Member* at, int asynchronous) {
  const int last = at->size - 1;
  int8_t small = at->rank == last ? 7 : 0;
  int8_t others[2] = {at->rank == last ? 8 : 0, at->rank == last ? 9 : 0};
  const hymnCollectiveCall_t all[calls] = {{NULL, &small, 1, hymnInt8, 0, last},
                                           {others, others, 2, hymnInt8, 0, last}};
  carry_out(at, asynchronous, hymnCollectiveBroadcast, all);
  CHECK(small == 7 && others[0] == 8 && others[1] == 9);
  const hymnCollectiveCall_t nothing[calls] = {{NULL, NULL, 0, hymnInt8, 0, 0},
                                               {NULL, NULL, 0, hymnInt8, 0, 0}};
  carry_out(at, asynchronous, hymnCollectiveBarrier, nothing);
}

static void carry_outv(const Member* at, int asynchronous, hymnCollective_t collective,
                       const hymnCollectivevCall_t* all) {
  if (!asynchronous) {
    CHECK_OK(hymnCoalescedv(collective, all, calls, at->group, NULL));
    return;
  }
  // What describes the calls may go once they have started.
  hymnCollectivevCall_t copies[calls];
  size_t counts[calls][max_ranks], recvcounts[calls][max_ranks];
  for (int c = 0; c < calls; ++c) {
    copies[c] = all[c];
    memcpy(counts[c], all[c].counts, (size_t)at->size * sizeof(size_t));
    copies[c].counts = counts[c];
    if (all[c].recvcounts == NULL) continue;
    memcpy(recvcounts[c], all[c].recvcounts, (size_t)at->size * sizeof(size_t));
    copies[c].recvcounts = recvcounts[c];
  }
  hymnWork_t work = NULL;
  CHECK_OK(hymnICoalescedv(collective, copies, calls, at->group, NULL, &work));
  memset(copies, 0xff, sizeof copies);
  memset(counts, 0xff, sizeof counts);
  memset(recvcounts, 0xff, sizeof recvcounts);
  CHECK_OK(hymnWorkWait(work));
  CHECK_OK(hymnWorkFree(work));
}

enum { most_elements = max_ranks * max_ranks };

// Of the blocks of given sizes, where that of a rank begins.
static size_t begin_of(const size_t* counts, int rank) {
  size_t begin = 0;
  for (int i = 0; i < rank; ++i) begin += counts[i];
  return begin;
}

// Rank i's block has i elements in the first call, the first none, and the other way round in the
// second; what lies in it is 100 i and its place, and its opposite in the second call.
static void test_uneven_blocks(const Member* at, int asynchronous) {
  const int n = at->size, me = at->rank, last = n - 1;
  int32_t whole[calls][most_elements], part[calls][max_ranks], own[calls][max_ranks];
  size_t counts[calls][max_ranks];
  hymnCollectivevCall_t gathers[calls], scatters[calls], sums[calls];
  for (int c = 0; c < calls; ++c) {
    for (int i = 0; i < n; ++i) counts[c][i] = (size_t)(c == 0 ? i : last - i);
    for (size_t k = 0; k < counts[c][me]; ++k)
      own[c][k] = (c == 0 ? 1 : -1) * (100 * me + (int32_t)k);
    gathers[c] = (hymnCollectivevCall_t){own[c], whole[c], counts[c], NULL, hymnInt32, 0, last};
    scatters[c] = (hymnCollectivevCall_t){whole[c], part[c], counts[c], NULL, hymnInt32, 0, last};
    sums[c] = (hymnCollectivevCall_t){whole[c], part[c], counts[c], NULL, hymnInt32, hymnSum, 0};
  }
  memset(whole, 0xff, sizeof whole);
  carry_outv(at, asynchronous, hymnCollectiveGather, gathers);
  for (int c = 0; c < calls; ++c)
    for (int i = 0; i < n && me == last; ++i)
      for (size_t k = 0; k < counts[c][i]; ++k)
        CHECK(whole[c][begin_of(counts[c], i) + k] == (c == 0 ? 1 : -1) * (100 * i + (int32_t)k));
  memset(part, 0xff, sizeof part);
  carry_outv(at, asynchronous, hymnCollectiveScatter, scatters);
  for (int c = 0; c < calls; ++c)
    CHECK(memcmp(part[c], own[c], counts[c][me] * sizeof(int32_t)) == 0);
  memset(whole, 0xff, sizeof whole);
  carry_outv(at, asynchronous, hymnCollectiveAllGather, gathers);
  for (int c = 0; c < calls; ++c)
    for (int i = 0; i < n; ++i)
      for (size_t k = 0; k < counts[c][i]; ++k)
        CHECK(whole[c][begin_of(counts[c], i) + k] == (c == 0 ? 1 : -1) * (100 * i + (int32_t)k));
  // All hold the same now.
  carry_outv(at, asynchronous, hymnCollectiveReduceScatter, sums);
  for (int c = 0; c < calls; ++c)
    for (size_t k = 0; k < counts[c][me]; ++k) CHECK(part[c][k] == n * own[c][k]);
}

// Rank i has j elements for rank j in the first call, and i for each in the second.
static void test_uneven_exchange(const Member* at, int asynchronous) {
  const int n = at->size, me = at->rank;
  int32_t in[calls][most_elements], out[calls][most_elements];
  size_t sent[calls][max_ranks], received[calls][max_ranks];
  hymnCollectivevCall_t exchanges[calls];
  for (int i = 0; i < n; ++i) {
    sent[0][i] = received[1][i] = (size_t)i;
    sent[1][i] = received[0][i] = (size_t)me;
  }
  memset(out, 0xff, sizeof out);
  for (int c = 0; c < calls; ++c) {
    for (int to = 0; to < n; ++to)
      for (size_t k = 0; k < sent[c][to]; ++k)
        in[c][begin_of(sent[c], to) + k] = 1000 * me + 10 * to + c;
    exchanges[c] = (hymnCollectivevCall_t){in[c], out[c], sent[c], received[c], hymnInt32, 0, 0};
  }
  carry_outv(at, asynchronous, hymnCollectiveAllToAll, exchanges);
  for (int c = 0; c < calls; ++c)
    for (int i = 0; i < n; ++i)
      for (size_t k = 0; k < received[c][i]; ++k)
        CHECK(out[c][begin_of(received[c], i) + k] == 1000 * i + 10 * me + c);
}

static void test_misuse_of_uneven_blocks(const Member* at) {
  int32_t value = 1;
  size_t counts[max_ranks] = {0};
  hymnWork_t work = (hymnWork_t)&value;
  hymnCollectivevCall_t all[calls] = {{&value, &value, counts, NULL, hymnInt32, hymnSum, 0},
                                      {&value, &value, NULL, NULL, hymnInt32, hymnSum, 0}};
  CHECK_FAILS(hymnUsageError, "calls is NULL",
              hymnCoalescedv(hymnCollectiveAllGather, NULL, 1, at->group, NULL));
  CHECK_FAILS(hymnUsageError, "nothing to coalesce",
              hymnCoalescedv(hymnCollectiveAllGather, NULL, 0, at->group, NULL));
  CHECK_FAILS(hymnUsageError, "has no blocks of given sizes",
              hymnCoalescedv(hymnCollectiveAllReduce, all, 1, at->group, NULL));
  CHECK_FAILS(hymnUsageError, "recvcounts is NULL",
              hymnCoalescedv(hymnCollectiveAllToAll, all, 1, at->group, NULL));
  // The first one is fine, and is not started.
  CHECK_FAILS(hymnUsageError, "counts is NULL",
              hymnICoalescedv(hymnCollectiveAllGather, all, 2, at->group, NULL, &work));
  CHECK(work == NULL && value == 1);
}

static void test_misuse(const Member* at) {
  int32_t in = 1, out = -1;
  hymnWork_t work = (hymnWork_t)&in;
  hymnCollectiveCall_t all[calls] = {{&in, &out, 1, hymnInt32, hymnSum, 0},
                                     {&in, &out, 1, hymnInt32, 99, 0}};
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
  CHECK_FAILS(hymnUsageError, "99 is not a hymnOp_t",
              hymnICoalesced(hymnCollectiveAllReduce, all, 2, at->group, NULL, &work));
  all[1] = (hymnCollectiveCall_t){NULL, &out, 1, hymnInt32, hymnSum, 0};
  CHECK_FAILS(hymnUsageError, "null",
              hymnICoalesced(hymnCollectiveAllReduce, all, 2, at->group, NULL, &work));
  CHECK(work == NULL && out == -1);
}

static void test_buffers(const Member* at) {
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
  Member at = {NULL, -1, -1};
  CHECK_OK(hymnWorldGroup(world, &at.group));
  CHECK_OK(hymnWorldRank(world, &at.rank));
  CHECK_OK(hymnWorldSize(world, &at.size));
  for (int asynchronous = 0; asynchronous < 2; ++asynchronous) {
    test_reductions(&at, asynchronous);
    test_blocks(&at, asynchronous);
    test_others(&at, asynchronous);
    test_uneven_blocks(&at, asynchronous);
    test_uneven_exchange(&at, asynchronous);
  }
  test_scope(&at);
  test_misuse(&at);
  test_misuse_of_uneven_blocks(&at);
  test_buffers(&at);
  // Nobody may leave before all have made their wrong calls.
  CHECK_OK(hymnBarrier(at.group, NULL));
}
