// What a thread says of its calls: places in programs that are not compiled, and a limit.
#include "hymn/hymn_coalesced.h"

#include <math.h>
#include <stdint.h>

#include "check.h"

static void test_numbers(void) {
  hymnSite_t first = 0, again = 0, other = 0;
  CHECK_OK(hymnSiteCreate("/a/train.py", 42, &first));
  CHECK_OK(hymnSiteCreate("/a/train.py", 42, &again));
  CHECK_OK(hymnSiteCreate("/a/train.py", 43, &other));
  CHECK(first != 0 && again == first && other != first);
  CHECK_FAILS(hymnUsageError, "file is NULL", hymnSiteCreate(NULL, 1, &other));
  CHECK_FAILS(hymnUsageError, "no place", hymnSiteCreate("", 1, &other));
  CHECK_FAILS(hymnUsageError, "no place", hymnSiteCreate("train.py", 0, &other));
  CHECK_FAILS(hymnUsageError, "site is NULL", hymnSiteCreate("train.py", 1, NULL));
  CHECK_FAILS(hymnUsageError, "hymnSite_t", hymnThreadSetSite(4711));
  CHECK_FAILS(hymnUsageError, "hymnSite_t", hymnThreadSetSite(first + 200));
}

// Two ranks that make different calls are told of both, with their places.
static void test_places(hymnWorld_t world) {
  int rank = -1, size = 0;
  int32_t value = 1;
  const int ranks[] = {0, 1};
  hymnGroup_t group = NULL;
  hymnSite_t site = 0;
  CHECK_OK(hymnWorldRank(world, &rank));
  CHECK_OK(hymnWorldSize(world, &size));
  if (size < 2) return;
  hymnGroupOptions_t options = HYMN_GROUP_OPTIONS_INIT;
  options.timeout_seconds = 20;
  CHECK_OK(hymnGroupCreate(world, ranks, 2, &options, &group));
  if (rank < 2) {
    CHECK_OK(hymnSiteCreate("/a/solve.py", rank == 0 ? 10 : 20, &site));
    CHECK_OK(hymnThreadSetSite(site));
    const hymnResult_t result =
        rank == 0 ? hymnAllReduce(&value, &value, 1, hymnInt32, hymnSum, group, NULL)
                  : hymnBroadcast(&value, 1, hymnInt32, 0, group, NULL);
    CHECK(result != hymnSuccess);
    CHECK(strstr(hymnGetLastError(), "solve.py:10") != NULL);
    CHECK(strstr(hymnGetLastError(), "solve.py:20") != NULL);
    CHECK_OK(hymnThreadSetSite(0));
  }
  CHECK_OK(hymnGroupFree(group));
}

// A receive that nobody sends to: copies the place that its error names, "(at …)".
static void receive_from(hymnGroup_t group, char* place, size_t bytes) {
  int32_t value = 0;
  CHECK_FAILS(hymnTimeoutError, "limit 0.100 s",
              hymnRecv(&value, 1, hymnInt32, 1, 4, group, NULL, NULL));
  const char* begin = strstr(hymnGetLastError(), "(at ");
  CHECK(begin != NULL);
  snprintf(place, bytes, "%.*s", (int)strcspn(begin, ")"), begin);
}

/// Where this program begins, from the linker.
extern const char
    __ehdr_start;  // NOLINT(bugprone-reserved-identifier,readability-identifier-naming)

// By its line, or where the program is compiled without -g, as the byte behind its beginning.
static int names_test_places(const char* place) {
  char offset[40];
  snprintf(offset, sizeof offset, "+%#tx",
           (const char*)(uintptr_t)&test_places + 1 - &__ehdr_start);
  return strstr(place, "caller.c:") != NULL || strstr(place, offset) != NULL;
}

// A binding gives its own return address; a place of hymnThreadSetSite takes precedence over it.
static void test_address(hymnGroup_t group) {
  char own[200], given[200], named[200], again[200];
  hymnSite_t site = 0;
  receive_from(group, own, sizeof own);
  hymnThreadSetCaller((const char*)(uintptr_t)&test_places + 1);
  receive_from(group, given, sizeof given);
  CHECK_OK(hymnSiteCreate("/a/solve.py", 30, &site));
  CHECK_OK(hymnThreadSetSite(site));
  hymnThreadSetCaller((const char*)(uintptr_t)&test_places + 1);
  receive_from(group, named, sizeof named);
  hymnThreadSetCaller(NULL);
  CHECK_OK(hymnThreadSetSite(0));
  receive_from(group, again, sizeof again);
  CHECK(strcmp(own, again) == 0 && strcmp(own, given) != 0);
  CHECK(names_test_places(given));
  CHECK(strstr(named, "solve.py:30") != NULL);
}

// What is gathered has the limit of the end of the scope.
static void test_limit_of_scope(hymnGroup_t group, int rank) {
  int32_t value = 1;
  if (rank != 0) return;
  CHECK_OK(hymnCoalesceBegin(group, NULL));
  CHECK_OK(hymnRecv(&value, 1, hymnInt32, 1, 6, group, NULL, NULL));
  CHECK_FAILS(hymnTimeoutError, "limit 0.300 s", hymnCoalesceEnd(group));
}

// It holds in the place of the group's, which stays as it is.
static void test_limit(hymnWorld_t world) {
  int rank = -1, size = 0;
  double seconds = 0;
  int32_t value = 1;
  const int ranks[] = {0, 1};
  hymnGroup_t group = NULL;
  CHECK_FAILS(hymnUsageError, "NaN", hymnThreadSetTimeout(NAN));
  CHECK_OK(hymnWorldRank(world, &rank));
  CHECK_OK(hymnWorldSize(world, &size));
  if (size < 2) return;
  hymnGroupOptions_t options = HYMN_GROUP_OPTIONS_INIT;
  options.timeout_seconds = 30;
  CHECK_OK(hymnGroupCreate(world, ranks, 2, &options, &group));
  CHECK_OK(hymnThreadSetTimeout(0.3));
  if (rank == 0)
    CHECK_FAILS(hymnTimeoutError, "limit 0.300 s",
                hymnRecv(&value, 1, hymnInt32, 1, 5, group, NULL, NULL));
  test_limit_of_scope(group, rank);
  CHECK_OK(hymnThreadSetTimeout(0.1));
  if (rank == 0) test_address(group);
  CHECK_OK(hymnThreadSetTimeout(HYMN_TIMEOUT_DEFAULT));
  if (rank == 0) {
    CHECK_OK(hymnGroupGetTimeout(group, &seconds));
    CHECK(seconds == 30);
  }
  CHECK_OK(hymnGroupFree(group));
}

void test_caller(hymnWorld_t world) {
  test_numbers();
  test_places(world);
  test_limit(world);
}
