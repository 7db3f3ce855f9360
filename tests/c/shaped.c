// Buffers with shapes, from C.
#include "hymn/hymn_shaped.h"

#include "check.h"

static const int64_t image[] = {2, 3, 4};
static const int64_t channels_last[] = {12, 1, 3};
static const hymnShape_t rows = {image, NULL, 3}, permuted = {image, channels_last, 3};

static void fill(int32_t* values, int rank) {
  for (int i = 0; i < 24; ++i) values[i] = i + 100 * rank;
}

static void test_layouts(hymnGroup_t group, int rank, int size) {
  int32_t in[24], out[24];
  fill(in, rank);
  const int32_t sum_of_ranks = 100 * size * (size - 1) / 2;
  const hymnCollectiveCall_t call = {in, out, 24, hymnInt32, hymnSum, 0};
  const hymnCollective_t all_reduce = hymnCollectiveAllReduce;
  CHECK_OK(hymnCollectiveShaped(all_reduce, &call, &permuted, &permuted, group, NULL));
  for (int i = 0; i < 24; ++i) CHECK(out[i] == i * size + sum_of_ranks);
  hymnWork_t work = NULL;
  memset(out, 0, sizeof out);
  CHECK_OK(hymnICollectiveShaped(all_reduce, &call, &rows, NULL, group, NULL, &work));
  CHECK_OK(hymnWorkWait(work));
  CHECK_OK(hymnWorkFree(work));
  CHECK(out[23] == 23 * size + sum_of_ranks);
  const hymnCollectiveCall_t in_place = {in, in, 24, hymnInt32, hymnMax, 0};
  CHECK_OK(hymnCollectiveShaped(all_reduce, &in_place, NULL, &permuted, group, NULL));
  CHECK(in[23] == 23 + 100 * (size - 1));
  fill(in, rank);
  CHECK_OK(hymnCollectiveShaped(hymnCollectiveBroadcast, &in_place, NULL, &permuted, group, NULL));
  CHECK(in[23] == 23);

  CHECK_FAILS(hymnUsageError, "the elements would change places",
              hymnCollectiveShaped(all_reduce, &call, &permuted, &rows, group, NULL));
  CHECK_FAILS(hymnUsageError, "call is NULL",
              hymnCollectiveShaped(all_reduce, NULL, &permuted, &rows, group, NULL));
  const hymnShape_t broken = {NULL, NULL, 2}, short_of = {image, NULL, 2};
  CHECK_FAILS(hymnUsageError, "shape is NULL",
              hymnCollectiveShaped(all_reduce, &call, &broken, NULL, group, NULL));
  CHECK_FAILS(hymnUsageError, "the input buffer's shape holds 6 elements, its count is 24",
              hymnCollectiveShaped(all_reduce, &call, &short_of, NULL, group, NULL));
}

// Blocks are those of the outermost dimension.
static void test_blocks(hymnGroup_t group, int rank, int size) {
  int32_t in[24], out[4 * 24];
  fill(in, rank);
  const int64_t stack[] = {size, 2, 3, 4}, strides[] = {24, 12, 1, 3};
  const hymnShape_t all = {stack, strides, 4};
  const hymnCollectiveCall_t call = {in, out, 24, hymnInt32, hymnSum, 0};
  CHECK_OK(hymnCollectiveShaped(hymnCollectiveAllGather, &call, &permuted, &all, group, NULL));
  for (int i = 0; i < 24 * size; ++i) CHECK(out[i] == i % 24 + 100 * (i / 24));

  // In place a rank's input is a block of its output, at one address with it on rank 0.
  int32_t* const block = out + 24 * rank;
  const hymnCollectiveCall_t gather = {block, out, 24, hymnInt32, hymnSum, 0};
  CHECK_OK(hymnCollectiveShaped(hymnCollectiveAllGather, &gather, NULL, &all, group, NULL));
  for (int i = 0; i < 24 * size; ++i) CHECK(out[i] == i % 24 + 100 * (i / 24));
  const hymnCollectiveCall_t scatter = {out, block, 24, hymnInt32, hymnSum, 0};
  CHECK_OK(hymnCollectiveShaped(hymnCollectiveReduceScatter, &scatter, NULL, &rows, group, NULL));
  for (int i = 0; i < 24; ++i) CHECK(block[i] == size * (i + 100 * rank));
}

void test_shaped(hymnWorld_t world) {
  int rank = 0, size = 0;
  hymnGroup_t group = NULL;
  CHECK_OK(hymnWorldRank(world, &rank));
  CHECK_OK(hymnWorldSize(world, &size));
  CHECK_OK(hymnWorldGroup(world, &group));
  CHECK(size <= 4);
  test_layouts(group, rank, size);
  test_blocks(group, rank, size);
}

// In a world with HYMN_CHECKS=detail.
void test_shapes_of_ranks(hymnWorld_t world) {
  static const int64_t wide[] = {3, 4}, high[] = {4, 3}, columns[] = {1, 3};
  const hymnShape_t usual = {wide, NULL, 2}, turned = {wide, columns, 2}, other = {high, NULL, 2};
  int rank = 0, size = 0;
  hymnGroup_t group = NULL;
  CHECK_OK(hymnWorldRank(world, &rank));
  CHECK_OK(hymnWorldSize(world, &size));
  CHECK_OK(hymnWorldGroup(world, &group));
  if (size < 2) return;
  int32_t values[12] = {1};
  const hymnCollectiveCall_t call = {values, values, 12, hymnInt32, hymnSum, 0};
  const hymnCollective_t all_reduce = hymnCollectiveAllReduce;
  const int is_last = rank == size - 1;
  CHECK_FAILS(
      hymnUsageError, "the shape is [3, 4] on rank 0, but [4, 3] on rank",
      hymnCollectiveShaped(all_reduce, &call, NULL, is_last ? &other : &usual, group, NULL));
  CHECK_FAILS(
      hymnUsageError,
      "the layout is [3, 4] with strides [4, 1] on rank 0, but [3, 4] with strides [1, 3]",
      hymnCollectiveShaped(all_reduce, &call, NULL, is_last ? &turned : &usual, group, NULL));
  CHECK_OK(hymnCollectiveShaped(all_reduce, &call, NULL, &turned, group, NULL));
  CHECK(values[0] == size);
}
