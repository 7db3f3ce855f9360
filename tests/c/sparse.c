// Sparse tensors, from C.
#include "hymn/hymn_sparse.h"

#include "tests/c/check.h"

typedef struct {
  hymnGroup_t group;
  int rank, size;
} Member;

// Every rank has row 3, and the last one row 0, too.
static hymnSparse_t tensor_of(const Member* at) {
  static const int64_t shape[] = {4, 2}, indices[] = {3, 0};
  static const int32_t values[] = {1, 2, 5, 6};
  const hymnSparse_t tensor = {shape,    2, 1, indices, values, at->rank == at->size - 1 ? 2 : 1,
                               hymnInt32};
  return tensor;
}

static void check_rows(hymnSparseTensor_t result, const int64_t* indices, const int32_t* values,
                       size_t rows) {
  hymnSparse_t view;
  CHECK_OK(hymnSparseTensorView(result, &view));
  CHECK(view.dimensions == 2 && view.shape[0] == 4 && view.shape[1] == 2);
  CHECK(view.sparse_dimensions == 1 && view.dtype == hymnInt32 && view.entries == rows);
  CHECK(memcmp(view.indices, indices, rows * sizeof *indices) == 0);
  CHECK(memcmp(view.values, values, 2 * rows * sizeof *values) == 0);
  CHECK_OK(hymnSparseTensorFree(result));
}

static void test_sums(const Member* at) {
  const hymnSparse_t tensor = tensor_of(at);
  hymnSparseTensor_t result = NULL;
  const int64_t rows[] = {0, 3};
  const int32_t sums[] = {5, 6, at->size, 2 * at->size};
  CHECK_OK(hymnAllReduceSparse(&tensor, hymnSum, NULL, 0, at->group, &result));
  check_rows(result, rows, sums, 2);
  const int64_t declared[] = {3, 1, 0}, all[] = {0, 1, 3};
  const int32_t all_sums[] = {5, 6, 0, 0, at->size, 2 * at->size};
  CHECK_OK(hymnAllReduceSparse(&tensor, hymnSum, declared, 3, at->group, &result));
  check_rows(result, all, all_sums, 3);
}

static void test_starts(const Member* at) {
  const hymnSparse_t tensor = tensor_of(at);
  const int64_t rows[] = {0, 3};
  const int32_t sums[] = {5, 6, at->size, 2 * at->size};
  hymnSparseTensor_t results[2] = {NULL, NULL};
  hymnWork_t works[2];
  for (int i = 0; i < 2; ++i)
    CHECK_OK(hymnIAllReduceSparse(&tensor, hymnSum, NULL, 0, at->group, &results[i], &works[i]));
  CHECK_OK(hymnBarrier(at->group, NULL));
  CHECK_OK(hymnWaitAll(works, 2, HYMN_TIMEOUT_DEFAULT));
  for (int i = 0; i < 2; ++i) {
    CHECK_OK(hymnWorkFree(works[i]));
    check_rows(results[i], rows, sums, 2);
  }
}

static void test_faults_of_works(const Member* at) {
  hymnSparse_t tensor = tensor_of(at);
  hymnSparseTensor_t result = NULL;
  hymnWork_t work = NULL;
  CHECK_FAILS(hymnUsageError, "work is NULL",
              hymnIAllReduceSparse(&tensor, hymnSum, NULL, 0, at->group, &result, NULL));
  CHECK(result == NULL);
  if (at->rank == 0) tensor.sparse_dimensions = 3;
  CHECK_OK(hymnIAllReduceSparse(&tensor, hymnSum, NULL, 0, at->group, &result, &work));
  CHECK_FAILS(hymnUsageError, "rank 0: 3 sparse dimensions", hymnWorkWait(work));
  CHECK_OK(hymnWorkFree(work));
  CHECK_OK(hymnSparseTensorFree(result));
}

// On all ranks, whichever makes it: and the group goes on.
static void test_faults(const Member* at) {
  hymnSparse_t tensor = tensor_of(at);
  hymnSparseTensor_t result = NULL;
  if (at->rank == 0) tensor.sparse_dimensions = 3;
  CHECK_FAILS(hymnUsageError, "rank 0: 3 sparse dimensions",
              hymnAllReduceSparse(&tensor, hymnSum, NULL, 0, at->group, &result));
  CHECK(result == NULL);
  tensor = tensor_of(at);
  if (at->rank == 0) tensor.indices = NULL;
  CHECK_FAILS(hymnUsageError, "rank 0: the indices buffer is null",
              hymnAllReduceSparse(&tensor, hymnSum, NULL, 0, at->group, &result));
  tensor = tensor_of(at);
  if (at->rank == 0) tensor.entries = SIZE_MAX;
  CHECK_FAILS(hymnUsageError, "more than memory can hold",
              hymnAllReduceSparse(&tensor, hymnSum, NULL, 0, at->group, &result));
  tensor = tensor_of(at);
  CHECK_FAILS(hymnUnsupportedError, "premul_sum",
              hymnAllReduceSparse(&tensor, hymnOpPremulSum(2), NULL, 0, at->group, &result));
  CHECK_FAILS(hymnUsageError, "result is NULL",
              hymnAllReduceSparse(&tensor, hymnSum, NULL, 0, at->group, NULL));
  CHECK_FAILS(hymnUsageError, "tensor is NULL",
              hymnAllReduceSparse(NULL, hymnSum, NULL, 0, at->group, &result));
  CHECK_FAILS(hymnUsageError, "tensor is NULL", hymnSparseTensorFree(NULL));
  CHECK_FAILS(hymnUsageError, "tensor is NULL", hymnSparseTensorView(NULL, &tensor));
}

void test_sparse(hymnWorld_t world) {
  Member at;
  CHECK_OK(hymnWorldGroup(world, &at.group));
  CHECK_OK(hymnGroupRank(at.group, &at.rank));
  CHECK_OK(hymnGroupSize(at.group, &at.size));
  test_sums(&at);
  test_starts(&at);
  test_faults(&at);
  test_faults_of_works(&at);
  test_sums(&at);
}
