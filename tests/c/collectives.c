// Every collective of the C API in its three forms, blocking and asynchronous, with exact results.
#include "check.h"

enum { max_ranks = 16, block = 3, most = max_ranks * max_ranks * block };

// This rank's view of the group under test, and how its collectives are called.
typedef struct {
  hymnGroup_t group;
  int rank, size;
  int asynchronous;
} Setting;

// hymn<name>, or hymnI<name> and its end.
#define CARRY_OUT(setting, name, ...)                                            \
  do {                                                                           \
    if ((setting)->asynchronous) {                                               \
      hymnWork_t carried_work = NULL;                                            \
      CHECK_OK(hymnI##name(__VA_ARGS__, (setting)->group, NULL, &carried_work)); \
      finish(carried_work);                                                      \
    } else {                                                                     \
      CHECK_OK(hymn##name(__VA_ARGS__, (setting)->group, NULL));                 \
    }                                                                            \
  } while (0)

static void finish(hymnWork_t work) {
  int done = 0;
  hymnResult_t error = hymnInternalError;
  CHECK(work != NULL);
  CHECK_OK(hymnWorkTest(work, &done));
  CHECK_OK(hymnWorkWait(work));
  CHECK_OK(hymnWorkTest(work, &done));
  CHECK(done == 1);
  CHECK_OK(hymnWorkError(work, &error));
  CHECK(error == hymnSuccess);
  CHECK_OK(hymnWorkFree(work));
}

// Element `i` of what group rank `from` has for group rank `to`.
static int64_t element(int from, int to, size_t i) {
  return 10000 * (int64_t)from + 100 * (int64_t)to + (int64_t)i;
}

static int64_t sum_of_elements(int size, int to, size_t i) {
  int64_t sum = 0;
  for (int from = 0; from < size; ++from) sum += element(from, to, i);
  return sum;
}

static int global(const Setting* setting, int group_rank) {
  int rank = -1;
  CHECK_OK(hymnGroupToGlobal(setting->group, group_rank, &rank));
  return rank;
}

// Uneven blocks, among them an empty one.
static size_t length(int group_rank) { return (size_t)(group_rank * 2) % 5; }

// One buffer made of blocks, and the same blocks as a list.
typedef struct {
  int64_t data[most];
  hymnBlock_t list[max_ranks];
  size_t counts[max_ranks];
} Blocks;

// Blocks of counts[i] elements, all filled with -1.
static void lay_out_counted(Blocks* blocks, int size) {
  size_t offset = 0;
  for (int i = 0; i < most; ++i) blocks->data[i] = -1;
  for (int i = 0; i < size; ++i) {
    blocks->list[i] = (hymnBlock_t){blocks->data + offset, blocks->counts[i]};
    offset += blocks->counts[i];
  }
}

static void lay_out(Blocks* blocks, int size, size_t each) {
  for (int i = 0; i < size; ++i) blocks->counts[i] = each;
  lay_out_counted(blocks, size);
}

static void lay_out_uneven(Blocks* blocks, int size) {
  for (int i = 0; i < size; ++i) blocks->counts[i] = length(i);
  lay_out_counted(blocks, size);
}

static void fill(Blocks* blocks, int size, int from) {
  for (int to = 0; to < size; ++to) {
    for (size_t i = 0; i < blocks->counts[to]; ++i) {
      ((int64_t*)blocks->list[to].data)[i] = element(from, to, i);
    }
  }
}

// Block i holds what rank i has for rank `to`; nothing behind the last block was touched.
static void check_blocks(const Blocks* blocks, int size, int to) {
  const int64_t* end = blocks->data;
  for (int from = 0; from < size; ++from) {
    const int64_t* part = blocks->list[from].data;
    for (size_t i = 0; i < blocks->counts[from]; ++i) CHECK(part[i] == element(from, to, i));
    end = part + blocks->counts[from];
  }
  CHECK(*end == -1);
}

static void check_untouched(const Blocks* blocks) {
  for (int i = 0; i < most; ++i) CHECK(blocks->data[i] == -1);
}

static void test_all_reduce(const Setting* s) {
  int32_t in[2] = {s->rank + 1, -s->rank};
  int32_t out[2];
  const int n = s->size;
  int32_t product = 1, all_bits = 0, odd_bits = 0, scaled = 0;
  for (int i = 1; i <= n; ++i) {
    product *= i;
    scaled -= (i - 1) * i;
    all_bits |= i;
    odd_bits ^= i;
  }
  const struct {
    hymnOp_t op;
    int32_t first;
  } cases[] = {{hymnSum, n * (n + 1) / 2},
               {hymnProd, product},
               {hymnMin, 1},
               {hymnMax, n},
               {hymnBand, n == 1},
               {hymnBor, all_bits},
               {hymnBxor, odd_bits},
               {hymnLand, 1},
               {hymnLor, 1},
               {hymnLxor, n % 2},
               {hymnAvg, (n + 1) / 2},
               {hymnOpPremulSum(2), n * (n + 1)},
               {hymnOpPremulSum(0), 0},
               {hymnOpPremulSum(-s->rank), scaled}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    CARRY_OUT(s, AllReduce, in, out, 1, hymnInt32, cases[i].op);
    CHECK(out[0] == cases[i].first);
  }
  CARRY_OUT(s, AllReduce, in, in, 2, hymnInt32, hymnSum);
  CHECK(in[0] == n * (n + 1) / 2 && in[1] == -n * (n - 1) / 2);
  CARRY_OUT(s, AllReduce, NULL, NULL, 0, hymnFloat64, hymnSum);
}

static void test_scan(const Setting* s) {
  const int32_t below = s->rank * (s->rank - 1) / 2;
  int32_t in[2] = {s->rank, 1};
  int32_t out[2] = {-7, -7};
  CARRY_OUT(s, Scan, in, out, 2, hymnInt32, hymnSum);
  CHECK(out[0] == below + s->rank && out[1] == s->rank + 1);
  out[0] = out[1] = -7;
  CARRY_OUT(s, Exscan, in, out, 2, hymnInt32, hymnSum);
  CHECK(s->rank == 0 ? out[0] == -7 && out[1] == -7 : out[0] == below && out[1] == s->rank);
  CARRY_OUT(s, Exscan, in, in, 2, hymnInt32, hymnSum);
  CHECK(s->rank == 0 ? in[0] == 0 && in[1] == 1 : in[0] == below && in[1] == s->rank);
  CARRY_OUT(s, Scan, NULL, NULL, 0, hymnFloat64, hymnMax);
}

static void test_dtypes(const Setting* s) {
  const int n = s->size;
  const int total = n * (n + 1) / 2;
  float single = (float)(s->rank + 1) / 2;
  CARRY_OUT(s, AllReduce, &single, &single, 1, hymnFloat32, hymnSum);
  CHECK(single == (float)total / 2);
  double complex_number[2] = {s->rank + 1, -1};
  CARRY_OUT(s, AllReduce, complex_number, complex_number, 1, hymnComplex128, hymnSum);
  CHECK(complex_number[0] == total && complex_number[1] == -n);
  uint16_t half = 0x7800;  // 2^15: the sum overflows float16, the average must not
  CARRY_OUT(s, AllReduce, &half, &half, 1, hymnFloat16, hymnAvg);
  CHECK(half == 0x7800);
  uint8_t truth = s->rank == 0 ? 7 : 0;
  CARRY_OUT(s, AllReduce, &truth, &truth, 1, hymnBool, hymnMax);
  CHECK(truth == 1);
  uint8_t quarter = s->rank == n - 1 ? 0x2c : 0xff;  // float8 is moved, bit for bit
  CARRY_OUT(s, Broadcast, &quarter, 1, hymnFloat8e4m3, global(s, n - 1));
  CHECK(quarter == 0x2c);
}

static void test_rooted(const Setting* s, int root) {
  const int to = global(s, root);
  int64_t buf[2] = {element(s->rank, 0, 0), element(s->rank, 0, 1)};
  int64_t out[2] = {-1, -1};
  CARRY_OUT(s, Reduce, buf, s->rank == root ? out : NULL, 2, hymnInt64, hymnSum, to);
  for (size_t i = 0; i < 2; ++i) {
    CHECK(out[i] == (s->rank == root ? sum_of_elements(s->size, 0, i) : -1));
  }
  CARRY_OUT(s, Broadcast, buf, 2, hymnInt64, to);
  for (size_t i = 0; i < 2; ++i) CHECK(buf[i] == element(root, 0, i));
}

static void test_gather(const Setting* s, int root) {
  Blocks mine, all;
  const int to = global(s, root);
  const int is_root = s->rank == root;
  lay_out(&mine, s->size, block);
  fill(&mine, s->size, s->rank);
  lay_out(&all, s->size, block);
  CARRY_OUT(s, Gather, mine.list[root].data, is_root ? all.data : NULL, block, hymnInt64, to);
  is_root ? check_blocks(&all, s->size, root) : check_untouched(&all);
  lay_out(&all, s->size, block);
  CARRY_OUT(s, CollectiveList, hymnCollectiveGather, &mine.list[root], is_root ? all.list : NULL,
            hymnInt64, 0, to);
  is_root ? check_blocks(&all, s->size, root) : check_untouched(&all);
  lay_out_uneven(&all, s->size);
  lay_out(&mine, s->size, 5);
  fill(&mine, s->size, s->rank);
  CARRY_OUT(s, Gatherv, mine.list[root].data, is_root ? all.data : NULL, all.counts, hymnInt64, to);
  is_root ? check_blocks(&all, s->size, root) : check_untouched(&all);
  lay_out_uneven(&all, s->size);
  mine.list[root].count = length(s->rank);
  CARRY_OUT(s, CollectiveList, hymnCollectiveGather, &mine.list[root], is_root ? all.list : NULL,
            hymnInt64, 0, to);
  is_root ? check_blocks(&all, s->size, root) : check_untouched(&all);
}

static void test_scatter(const Setting* s, int root) {
  Blocks all;
  const int from = global(s, root);
  const int is_root = s->rank == root;
  int64_t out[block];
  lay_out(&all, s->size, block);
  fill(&all, s->size, root);
  CARRY_OUT(s, Scatter, is_root ? all.data : NULL, out, block, hymnInt64, from);
  for (size_t i = 0; i < block; ++i) CHECK(out[i] == element(root, s->rank, i));
  memset(out, 0xff, sizeof out);
  CARRY_OUT(s, CollectiveList, hymnCollectiveScatter, is_root ? all.list : NULL,
            &(hymnBlock_t){out, block}, hymnInt64, 0, from);
  for (size_t i = 0; i < block; ++i) CHECK(out[i] == element(root, s->rank, i));

  int64_t part[5] = {-1, -1, -1, -1, -1};
  lay_out_uneven(&all, s->size);
  fill(&all, s->size, root);
  CARRY_OUT(s, Scatterv, is_root ? all.data : NULL, all.counts, part, hymnInt64, from);
  for (size_t i = 0; i < 5; ++i) {
    CHECK(part[i] == (i < length(s->rank) ? element(root, s->rank, i) : -1));
  }
}

static void test_all_gather(const Setting* s) {
  Blocks all;
  int64_t mine[5];
  for (size_t i = 0; i < 5; ++i) mine[i] = element(s->rank, 0, i);
  lay_out(&all, s->size, block);
  CARRY_OUT(s, AllGather, mine, all.data, block, hymnInt64);
  check_blocks(&all, s->size, 0);
  lay_out(&all, s->size, block);
  CARRY_OUT(s, CollectiveList, hymnCollectiveAllGather, &(hymnBlock_t){mine, block}, all.list,
            hymnInt64, 0, 0);
  check_blocks(&all, s->size, 0);
  lay_out_uneven(&all, s->size);
  CARRY_OUT(s, AllGatherv, mine, all.data, all.counts, hymnInt64);
  check_blocks(&all, s->size, 0);
  lay_out_uneven(&all, s->size);
  CARRY_OUT(s, CollectiveList, hymnCollectiveAllGather, &(hymnBlock_t){mine, length(s->rank)},
            all.list, hymnInt64, 0, 0);
  check_blocks(&all, s->size, 0);
}

static void check_reduced(const Setting* s, const int64_t* part, size_t count, size_t capacity) {
  for (size_t i = 0; i < capacity; ++i) {
    CHECK(part[i] == (i < count ? sum_of_elements(s->size, s->rank, i) : -1));
  }
}

static void test_reduce_scatter(const Setting* s) {
  Blocks all;
  int64_t part[5] = {-1, -1, -1, -1, -1};
  lay_out(&all, s->size, block);
  fill(&all, s->size, s->rank);
  CARRY_OUT(s, ReduceScatter, all.data, part, block, hymnInt64, hymnSum);
  check_reduced(s, part, block, 5);
  memset(part, 0xff, sizeof part);
  CARRY_OUT(s, CollectiveList, hymnCollectiveReduceScatter, all.list, &(hymnBlock_t){part, block},
            hymnInt64, hymnSum, 0);
  check_reduced(s, part, block, 5);
  memset(part, 0xff, sizeof part);
  lay_out_uneven(&all, s->size);
  fill(&all, s->size, s->rank);
  CARRY_OUT(s, ReduceScatterv, all.data, all.counts, part, hymnInt64, hymnSum);
  check_reduced(s, part, length(s->rank), 5);
}

static void test_all_to_all(const Setting* s) {
  Blocks in, out;
  lay_out(&in, s->size, block);
  fill(&in, s->size, s->rank);
  lay_out(&out, s->size, block);
  CARRY_OUT(s, AllToAll, in.data, out.data, block, hymnInt64);
  check_blocks(&out, s->size, s->rank);

  // What goes to rank j has length(j) elements, from whomever it comes.
  lay_out_uneven(&in, s->size);
  fill(&in, s->size, s->rank);
  lay_out(&out, s->size, length(s->rank));
  CARRY_OUT(s, AllToAllv, in.data, in.counts, out.data, out.counts, hymnInt64);
  check_blocks(&out, s->size, s->rank);
  lay_out(&out, s->size, length(s->rank));
  CARRY_OUT(s, CollectiveList, hymnCollectiveAllToAll, in.list, out.list, hymnInt64, 0, 0);
  check_blocks(&out, s->size, s->rank);
}

static void test_barrier(const Setting* s) {
  if (s->asynchronous) {
    hymnWork_t work = NULL;
    CHECK_OK(hymnIBarrier(s->group, NULL, &work));
    finish(work);
  } else {
    CHECK_OK(hymnBarrier(s->group, NULL));
  }
}

void test_collectives(hymnGroup_t group) {
  Setting setting = {group, -1, -1, 0};
  CHECK_OK(hymnGroupRank(group, &setting.rank));
  CHECK_OK(hymnGroupSize(group, &setting.size));
  CHECK(setting.size <= max_ranks);
  for (setting.asynchronous = 0; setting.asynchronous < 2; ++setting.asynchronous) {
    test_all_reduce(&setting);
    test_scan(&setting);
    test_dtypes(&setting);
    for (int root = 0; root < setting.size; ++root) {
      test_rooted(&setting, root);
      test_gather(&setting, root);
      test_scatter(&setting, root);
    }
    test_all_gather(&setting);
    test_reduce_scatter(&setting);
    test_all_to_all(&setting);
    test_barrier(&setting);
  }
}
