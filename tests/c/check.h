// What the C tests check with. A failed check ends the process at once, and so the whole mpirun
// job.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hymn/hymn.h"

// _Exit, not exit: nothing that waits for the other ranks may run any more.
#define CHECK(condition)                                                                  \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      fprintf(stderr, "%s:%d: check failed: %s (last error: '%s')\n", __FILE__, __LINE__, \
              #condition, hymnGetLastError());                                            \
      fflush(stderr);                                                                     \
      _Exit(1);                                                                           \
    }                                                                                     \
  } while (0)

#define CHECK_OK(call) CHECK((call) == hymnSuccess)

// The call fails with this code, and its text holds the function's name and `words`.
#define CHECK_FAILS(code, words, call)                                   \
  do {                                                                   \
    CHECK((call) == (code));                                             \
    CHECK(strncmp(hymnGetLastError(), #call, strcspn(#call, "(")) == 0); \
    CHECK(strstr(hymnGetLastError(), words) != NULL);                    \
  } while (0)

// The parts that c_api_test and c_threads_test share.
void test_collectives(hymnGroup_t group);
void test_groups(hymnWorld_t world);
void test_point_to_point(hymnWorld_t world);
void test_prepared(hymnWorld_t world);
void test_work(hymnWorld_t world);
void test_errors(hymnWorld_t world);
void test_join(hymnWorld_t world);
void test_mesh(hymnWorld_t world);
void test_caller(hymnWorld_t world);
void test_coalesced(hymnWorld_t world);
void test_shaped(hymnWorld_t world);
void test_shapes_of_ranks(hymnWorld_t world);  // which compare their calls
void test_sparse(hymnWorld_t world);
void test_store(hymnWorld_t world);
void test_values(hymnWorld_t world);
