// Sends, receives and works of the C API, timeouts among them.
#include "check.h"
#include "hymn/hymn_coalesced.h"

enum { max_ranks = 16, ready = 1, data = 2 };

typedef struct {
  hymnGroup_t group;
  int rank, size;
} Member;

static Member member_of(hymnWorld_t world) {
  Member member = {NULL, -1, -1};
  CHECK_OK(hymnWorldGroup(world, &member.group));
  CHECK_OK(hymnWorldRank(world, &member.rank));
  CHECK_OK(hymnWorldSize(world, &member.size));
  return member;
}

// Rank 0 takes a message of another length from each, in whatever order they come.
static void test_any_source(const Member* at) {
  int32_t buf[max_ranks];
  for (int i = 0; i < max_ranks; ++i) buf[i] = 100 * at->rank + i;
  if (at->rank != 0) {
    CHECK_OK(hymnSend(buf, (size_t)at->rank, hymnInt32, 0, data, at->group, NULL));
    return;
  }
  int seen[max_ranks] = {0};
  for (int i = 1; i < at->size; ++i) {
    hymnRecvStatus_t status = {-1, -1, 0};
    CHECK_OK(hymnRecv(buf, max_ranks, hymnInt32, HYMN_ANY_SOURCE, data, at->group, NULL, &status));
    CHECK(status.source > 0 && status.source < at->size && !seen[status.source]++);
    CHECK(status.tag == data && status.count == (size_t)status.source);
    CHECK(buf[status.count - 1] == 100 * status.source + status.source - 1);
  }
}

// Everybody sends to the next and receives from the one before, as one work.
static void test_ring(const Member* at) {
  const int next = (at->rank + 1) % at->size, before = (at->rank + at->size - 1) % at->size;
  int64_t out = at->rank, in[4] = {-1, -1, -1, -1};
  const hymnP2POp_t ops[] = {
      {NULL, in, 4, hymnInt64, before, data},
      {&out, NULL, 1, hymnInt64, next, data},
  };
  hymnWork_t work = NULL;
  hymnRecvStatus_t status = {-1, -1, 0};
  CHECK_OK(hymnIBatch(ops, 2, at->group, NULL, &work));
  CHECK_OK(hymnWorkWait(work));
  CHECK_OK(hymnWorkStatus(work, 0, &status));
  CHECK(in[0] == before && in[1] == -1);
  CHECK(status.source == before && status.tag == data && status.count == 1);
  CHECK_FAILS(hymnUsageError, "receive number 1", hymnWorkStatus(work, 1, &status));
  CHECK_OK(hymnWorkFree(work));
}

// Everybody sends to itself in a batch, and around the ring as one call.
static void test_sendrecv(const Member* at) {
  const int next = (at->rank + 1) % at->size, before = (at->rank + at->size - 1) % at->size;
  const int64_t out[2] = {at->rank, at->rank};
  int64_t in[3] = {-1, -1, -1};
  hymnWork_t work = NULL;
  hymnRecvStatus_t status = {-1, -1, 0};
  const hymnP2POp_t ops[] = {
      {out, NULL, 2, hymnInt64, at->rank, data},
      {NULL, in, 3, hymnInt64, at->rank, data},
  };
  CHECK_OK(hymnIBatch(ops, 2, at->group, NULL, &work));
  CHECK_OK(hymnWorkWait(work));
  CHECK_OK(hymnWorkStatus(work, 0, &status));
  CHECK(status.source == at->rank && status.count == 2 && in[1] == at->rank && in[2] == -1);
  CHECK_OK(hymnWorkFree(work));
  CHECK_FAILS(hymnUsageError, "in one batch", hymnIBatch(ops, 1, at->group, NULL, &work));
  CHECK_FAILS(hymnUsageError, "itself",
              hymnSend(out, 1, hymnInt64, at->rank, data, at->group, NULL));
  CHECK_OK(hymnSendrecv(out, 1, hymnInt64, next, data, in, 3, hymnInt64, before, data, at->group,
                        NULL, &status));
  CHECK(status.source == before && status.count == 1 && in[0] == before);
  CHECK_OK(hymnISendrecv(out, 2, hymnInt64, before, data, in, 3, hymnInt64, next, data, at->group,
                         NULL, &work));
  CHECK_OK(hymnWorkWait(work));
  CHECK_OK(hymnWorkStatus(work, 0, &status));
  CHECK(status.source == next && status.count == 2 && in[1] == next);
  CHECK_OK(hymnWorkFree(work));
  in[0] = at->rank;
  CHECK_OK(hymnSendrecvReplace(in, 1, hymnInt64, next, data, before, data, at->group, NULL, NULL));
  CHECK(in[0] == before);
  CHECK_FAILS(hymnUsageError, "overlaps",
              hymnSendrecv(in, 2, hymnInt64, next, data, in + 1, 2, hymnInt64, before, data,
                           at->group, NULL, NULL));
}

// Beyond the ends of a line there is nobody, as for MPI_PROC_NULL.
static void test_line(const Member* at) {
  const int next = at->rank + 1 < at->size ? at->rank + 1 : HYMN_NO_RANK;
  const int before = at->rank > 0 ? at->rank - 1 : HYMN_NO_RANK;
  const int64_t out = 10 * at->rank;
  int64_t from_before = -1, from_next = -1, moved = out;
  hymnWork_t work = NULL;
  hymnRecvStatus_t status = {-1, -1, 7};
  CHECK_OK(hymnSendrecv(&out, 1, hymnInt64, next, data, &from_before, 1, hymnInt64, before, data,
                        at->group, NULL, &status));
  CHECK(from_before == (before < 0 ? -1 : 10 * before));
  CHECK(status.source == before && status.tag == data && status.count == (before < 0 ? 0 : 1));
  CHECK_OK(hymnISendrecv(&out, 1, hymnInt64, before, data, &from_next, 1, hymnInt64, next, data,
                         at->group, NULL, &work));
  CHECK_OK(hymnWorkWait(work));
  CHECK_OK(hymnWorkFree(work));
  CHECK(from_next == (next < 0 ? -1 : 10 * next));
  CHECK_OK(hymnSendrecvReplace(&moved, 1, hymnInt64, next, data, before, data, at->group, NULL,
                               &status));
  CHECK(moved == (before < 0 ? out : 10 * before) && status.source == before);
  // In a scope, too, whatever there is to send or to receive.
  from_before = -1;
  CHECK_OK(hymnCoalesceBegin(at->group, NULL));
  CHECK_OK(hymnSendrecv(&out, 1, hymnInt64, next, data, &from_before, 1, hymnInt64, before, data,
                        at->group, NULL, &status));
  CHECK_FAILS(hymnUsageError, "sendrecv_replace",
              hymnSendrecvReplace(&moved, 1, hymnInt64, HYMN_NO_RANK, data, HYMN_NO_RANK, data,
                                  at->group, NULL, &status));
  CHECK_OK(hymnCoalesceEnd(at->group));
  CHECK(from_before == (before < 0 ? -1 : 10 * before));
  const hymnP2POp_t ops[] = {
      {NULL, &from_before, 1, hymnInt64, before, data},
      {&moved, NULL, 1, hymnInt64, next, data},
  };
  CHECK_OK(hymnIBatch(ops, 2, at->group, NULL, &work));
  CHECK_OK(hymnWorkWait(work));
  CHECK_OK(hymnWorkFree(work));
  CHECK(from_before == (at->rank < 2 ? (at->rank == 0 ? -1 : 0) : 10 * (before - 1)));
  CHECK_FAILS(hymnUsageError, "-2 is not part of group",
              hymnSend(&out, 1, hymnInt64, HYMN_NO_RANK, data, at->group, NULL));
}

// Rank 0 makes room for just what waits.
static void test_probe(const Member* at) {
  int32_t buf[max_ranks] = {0};
  hymnMessageInfo_t info = {-7, -7, 0};
  hymnRecvStatus_t status = {-1, -1, 0};
  int found = -1;
  CHECK_OK(hymnIprobe(HYMN_ANY_SOURCE, ready, at->group, &found, &info));
  CHECK(found == 0 && info.source == -7);
  CHECK_OK(hymnBarrier(at->group, NULL));
  if (at->rank == 1) CHECK_OK(hymnSend(buf, 3, hymnInt32, 0, ready, at->group, NULL));
  if (at->rank == 0) {
    CHECK_OK(hymnProbe(HYMN_ANY_SOURCE, ready, at->group, &info));
    CHECK(info.source == 1 && info.tag == ready && info.bytes == 3 * sizeof(int32_t));
    CHECK_OK(hymnIprobe(1, ready, at->group, &found, &info));
    CHECK(found == 1 && info.bytes == 3 * sizeof(int32_t));
    CHECK_OK(hymnRecv(buf, info.bytes / sizeof(int32_t), hymnInt32, info.source, info.tag,
                      at->group, NULL, &status));
    CHECK(status.source == 1 && status.count == 3);
  }
  CHECK_FAILS(hymnUsageError, "itself", hymnProbe(at->rank, ready, at->group, &info));
  CHECK_FAILS(hymnUsageError, "info is NULL", hymnProbe(1 - at->rank, ready, at->group, NULL));
  CHECK_FAILS(hymnUsageError, "found is NULL",
              hymnIprobe(1 - at->rank, ready, at->group, NULL, &info));
}

void test_point_to_point(hymnWorld_t world) {
  const Member at = member_of(world);
  test_sendrecv(&at);
  test_line(&at);
  if (at.size < 2) return;
  test_probe(&at);
  test_any_source(&at);
  // What the ring sends to rank 0 must not be taken for an answer to "any source".
  CHECK_OK(hymnBarrier(at.group, NULL));
  test_ring(&at);
}

// Rank 0 waits too short a time, tells rank 1 to send, and waits again.
static void test_wait_again(const Member* at) {
  int32_t value = 17, nothing = 0;
  if (at->rank == 1) {
    CHECK_OK(hymnRecv(&nothing, 1, hymnInt32, 0, ready, at->group, NULL, NULL));
    CHECK_OK(hymnSend(&value, 1, hymnInt32, 0, data, at->group, NULL));
  }
  if (at->rank != 0) return;
  hymnWork_t work = NULL, told = NULL;
  hymnResult_t error = hymnInternalError;
  hymnRecvStatus_t status = {-1, -1, 0};
  int32_t in[2] = {0, 0};
  int done = -1;
  CHECK_OK(hymnIRecv(in, 2, hymnInt32, 1, data, at->group, NULL, &work));
  CHECK_OK(hymnWorkTest(work, &done));
  CHECK(done == 0);
  CHECK_FAILS(hymnTimeoutError, "recv", hymnWorkWaitTimeout(work, 0.05));
  CHECK_OK(hymnWorkError(work, &error));
  CHECK(error == hymnSuccess);
  CHECK_FAILS(hymnUsageError, "", hymnWorkStatus(work, 0, &status));
  CHECK_OK(hymnISend(&nothing, 1, hymnInt32, 1, ready, at->group, NULL, &told));
  CHECK_OK(hymnWorkWaitTimeout(work, HYMN_TIMEOUT_NONE));
  CHECK_OK(hymnWorkWait(told));
  CHECK_OK(hymnWorkStatus(work, 0, &status));
  CHECK(status.source == 1 && status.tag == data && status.count == 1 && in[0] == 17);
  CHECK_FAILS(hymnUsageError, "index 0", hymnWorkStatus(work, 1, &status));
  CHECK_OK(hymnWorkFree(told));
  CHECK_OK(hymnWorkFree(work));
}

// Rank 0 waits for three receives; rank 1 answers the second, then the others.
static void test_wait_for_several(const Member* at) {
  enum { several = 3 };
  int32_t values[several] = {10, 11, 12}, nothing = 0;
  if (at->rank == 1) {
    for (int round = 0; round < 2; ++round) {
      CHECK_OK(hymnRecv(&nothing, 1, hymnInt32, 0, ready, at->group, NULL, NULL));
      for (int i = 0; i < several; ++i)
        if ((i == 1) == (round == 0))
          CHECK_OK(hymnSend(&values[i], 1, hymnInt32, 0, data + 1 + i, at->group, NULL));
    }
  }
  if (at->rank != 0) return;
  hymnWork_t works[several + 1] = {NULL, NULL, NULL, NULL};
  int32_t in[several] = {0, 0, 0};
  size_t index = 77;
  CHECK_OK(hymnWaitAll(works, several + 1, HYMN_TIMEOUT_DEFAULT));
  CHECK_OK(hymnWaitAll(NULL, 0, HYMN_TIMEOUT_DEFAULT));
  CHECK_FAILS(hymnUsageError, "no operation", hymnWaitAny(works, several, 1, &index));
  CHECK_FAILS(hymnUsageError, "works is NULL", hymnWaitAll(NULL, 1, 1));
  CHECK_FAILS(hymnUsageError, "index is NULL", hymnWaitAny(works, several, 1, NULL));
  for (int i = 0; i < several; ++i)
    CHECK_OK(hymnIRecv(&in[i], 1, hymnInt32, 1, data + 1 + i, at->group, NULL, &works[i]));
  CHECK_FAILS(hymnTimeoutError, "recv", hymnWaitAny(works, several + 1, 0.05, &index));
  CHECK_FAILS(hymnTimeoutError, "recv", hymnWaitAll(works, several + 1, 0.05));
  CHECK_OK(hymnSend(&nothing, 1, hymnInt32, 1, ready, at->group, NULL));
  CHECK_OK(hymnWaitAny(works, several + 1, HYMN_TIMEOUT_DEFAULT, &index));
  CHECK(index == 1 && in[1] == 11);
  CHECK_OK(hymnSend(&nothing, 1, hymnInt32, 1, ready, at->group, NULL));
  CHECK_OK(hymnWaitAll(works, several + 1, HYMN_TIMEOUT_NONE));
  CHECK(in[0] == 10 && in[2] == 12);
  for (int i = 0; i < several; ++i) CHECK_OK(hymnWorkFree(works[i]));
}

// A receive that runs into the group's limit is its own matter; a collective takes the group with
// it, and all that is pending in it.
static void test_given_up(hymnWorld_t world, const Member* at) {
  const int pair[] = {0, 1};
  hymnGroup_t group = NULL;
  CHECK_OK(hymnGroupCreate(world, pair, 2, NULL, &group));
  if (at->rank == 0) {
    static int32_t never[2];  // static: MPI may keep its hands on it
    hymnWork_t work = NULL;
    hymnResult_t error = hymnSuccess;
    CHECK_OK(hymnIRecv(&never[0], 1, hymnInt32, 1, data, group, NULL, &work));
    CHECK_OK(hymnGroupSetTimeout(group, 0.05));
    CHECK_FAILS(hymnTimeoutError, "recv",
                hymnRecv(&never[1], 1, hymnInt32, 1, ready, group, NULL, NULL));
    CHECK_FAILS(hymnTimeoutError, "barrier", hymnBarrier(group, NULL));
    CHECK_FAILS(hymnAbortedError, "barrier #1", hymnBarrier(group, NULL));
    CHECK_FAILS(hymnAbortedError, "barrier #1", hymnWorkWait(work));
    CHECK_OK(hymnWorkError(work, &error));
    CHECK(error == hymnAbortedError);
    CHECK(strncmp(hymnGetLastError(), "hymnWorkError: ", 15) == 0);
    CHECK_OK(hymnWorkFree(work));
  }
  CHECK_OK(hymnGroupFree(group));
}

// Several at once, completed in another order, with computing in between.
static void test_outstanding(const Member* at) {
  enum { works = 3 };
  hymnWork_t work[works];
  int64_t value[works];
  for (int i = 0; i < works; ++i) {
    value[i] = at->rank + i;
    CHECK_OK(
        hymnIAllReduce(&value[i], &value[i], 1, hymnInt64, hymnSum, at->group, NULL, &work[i]));
  }
  for (int i = works - 1; i >= 0; --i) {
    for (int done = 0; !done;) CHECK_OK(hymnWorkTest(work[i], &done));
    CHECK(value[i] == at->size * (at->size - 1) / 2 + i * at->size);
    CHECK_OK(hymnWorkFree(work[i]));
  }
}

void test_work(hymnWorld_t world) {
  const Member at = member_of(world);
  test_outstanding(&at);
  if (at.size < 2) return;
  test_wait_again(&at);
  test_wait_for_several(&at);
  test_given_up(world, &at);
  CHECK_OK(hymnBarrier(at.group, NULL));
}
