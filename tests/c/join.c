// Joins of the C API: rank r has r inputs.
#include "hymn/hymn_join.h"

#include "check.h"

enum { max_ranks = 16 };

typedef struct {
  hymnGroup_t group;
  hymnJoin_t join;
  int rank, size;
  int hooked;    // how often the main hook was called
  int is_last;   // as the post-hook was told; -1: not called
  int fails_at;  // the body fails there; -1: nowhere
  int swallows;  // the body does not tell that it has failed
} Run;

static hymnGroup_t make_group(hymnWorld_t world, int size, const char* name) {
  int ranks[max_ranks];
  for (int i = 0; i < size; ++i) ranks[i] = i;
  hymnGroupOptions_t options = HYMN_GROUP_OPTIONS_INIT;
  options.description = name;
  hymnGroup_t group = NULL;
  CHECK_OK(hymnGroupCreate(world, ranks, (size_t)size, &options, &group));
  return group;
}

static Run make_run(hymnWorld_t world, const char* name) {
  Run run = {NULL, NULL, -1, -1, 0, -1, -1, 0};
  CHECK_OK(hymnWorldRank(world, &run.rank));
  CHECK_OK(hymnWorldSize(world, &run.size));
  run.group = make_group(world, run.size, name);
  return run;
}

static int active_in(const Run* run, int iteration) { return run->size - 1 - iteration; }

static hymnResult_t add_nothing(void* user) {
  Run* run = user;
  int64_t value = 0;
  ++run->hooked;
  return hymnAllReduce(&value, &value, 1, hymnInt64, hymnSum, run->group, NULL);
}

static hymnResult_t note_last(int is_last, void* user) {
  ((Run*)user)->is_last = is_last;
  return hymnSuccess;
}

static void check_questions(const Run* run, int iteration) {
  const int active = active_in(run, iteration);
  int divisor = -1, root = -1;
  hymnOp_t average = 0;
  CHECK_OK(hymnJoinDivisor(run->join, 0, &divisor));
  CHECK(divisor == active);
  CHECK_OK(hymnJoinAverage(run->join, 0, &average));
  CHECK(average == (active == run->size ? hymnAvg : hymnOpPremulSum(1.0 / active)));
  CHECK_OK(hymnJoinActingRoot(run->join, 0, 0, &root));
  CHECK(root == iteration + 1);  // those before it have run out
}

static hymnResult_t add_ones(void* user) {
  Run* run = user;
  for (int iteration = 0; iteration < run->rank; ++iteration) {
    if (iteration == run->fails_at) return hymnConfigError;
    const hymnResult_t notified = hymnJoinNotify(run->join);
    if (notified != hymnSuccess) return run->swallows ? hymnSuccess : notified;
    check_questions(run, iteration);
    int64_t sum = 1;
    const hymnResult_t reduced = hymnAllReduce(&sum, &sum, 1, hymnInt64, hymnSum, run->group, NULL);
    if (reduced != hymnSuccess) return reduced;
    CHECK(sum == active_in(run, iteration));
  }
  return hymnSuccess;
}

static void create_join(Run* run, const hymnJoinOptions_t* options) {
  hymnJoinable_t joinable = HYMN_JOINABLE_INIT;
  joinable.group = run->group;
  joinable.main_hook = add_nothing;
  joinable.post_hook = note_last;
  joinable.user = run;
  CHECK_OK(hymnJoinCreate(&joinable, 1, options, &run->join));
}

static void end_run(Run* run) {
  if (run->join != NULL) CHECK_OK(hymnJoinFree(run->join));
  CHECK_OK(hymnGroupFree(run->group));
}

static void test_hooks(hymnWorld_t world) {
  Run run = make_run(world, "joined");
  hymnJoinOptions_t options = HYMN_JOIN_OPTIONS_INIT;
  options.divisor = hymnJoinDivisorActive;
  create_join(&run, &options);
  for (int epoch = 1; epoch <= 2; ++epoch) {
    run.is_last = -1;
    CHECK_OK(hymnJoinRun(run.join, add_ones, &run));
    CHECK(run.hooked == epoch * (run.size - 1 - run.rank));
    CHECK(run.is_last == (run.rank == run.size - 1));
  }
  uint64_t iterations = 99;
  int active = -1;
  hymnJoinedRank_t joined[2] = {{-1, 99}, {-1, 99}};
  size_t n = 0;
  CHECK_OK(hymnJoinStatus(run.join, &iterations, &active, joined, 1, &n));
  CHECK(iterations == (uint64_t)(run.size - 1) && active == 0 && n == (size_t)run.size);
  CHECK(joined[0].rank == 0 && joined[0].iterations == 0);
  CHECK(joined[1].rank == -1);
  CHECK_OK(hymnJoinStatus(run.join, NULL, NULL, NULL, 0, NULL));
  CHECK_OK(hymnJoinNotify(run.join));  // outside of a run
  end_run(&run);
}

static hymnResult_t count_run(void* user) {
  ++*(int*)user;
  return hymnSuccess;
}

static void test_not_enabled(hymnWorld_t world) {
  Run run = make_run(world, "not joined");
  hymnJoinOptions_t options = HYMN_JOIN_OPTIONS_INIT;
  options.enable = -1;
  create_join(&run, &options);
  int runs = 0;
  CHECK_OK(hymnJoinRun(run.join, count_run, &runs));
  CHECK(runs == 1 && run.hooked == 0 && run.is_last == -1);
  end_run(&run);
}

static void test_early_termination(hymnWorld_t world, int swallows) {
  Run run = make_run(world, "ended early");
  if (run.size > 1) {
    hymnJoinOptions_t options = HYMN_JOIN_OPTIONS_INIT;
    options.throw_on_early_termination = 1;
    options.divisor = hymnJoinDivisorActive;
    create_join(&run, &options);
    run.swallows = swallows;
    const char* words = run.rank == 0 ? "Rank 0 exhausted all inputs."
                                      : "Detected at least one rank that exhausted inputs.";
    CHECK_FAILS(hymnUsageError, words, hymnJoinRun(run.join, add_ones, &run));
    CHECK_OK(hymnBarrier(run.group, NULL));  // nobody is out of step
  }
  end_run(&run);
}

static void test_failing_body(hymnWorld_t world) {
  Run run = make_run(world, "failed");
  if (run.size > 1) {
    hymnJoinOptions_t options = HYMN_JOIN_OPTIONS_INIT;
    options.divisor = hymnJoinDivisorActive;
    create_join(&run, &options);
    if (run.rank == run.size - 1) {
      run.fails_at = 0;
      CHECK_FAILS(hymnConfigError, "body returned", hymnJoinRun(run.join, add_ones, &run));
    } else {
      CHECK_FAILS(hymnAbortedError, "body returned", hymnJoinRun(run.join, add_ones, &run));
    }
  }
  end_run(&run);
}

static hymnResult_t call_without_hooks(void* user) {
  const Run* run = user;
  for (int iteration = 0; iteration < run->rank; ++iteration) {
    int active = -1, root = -1;
    hymnOp_t average = 0;
    CHECK_OK(hymnJoinCountActive(run->group, &active));
    CHECK(active == active_in(run, iteration));
    CHECK_OK(hymnJoinGroupActingRoot(run->group, 0, &root));
    CHECK(root == iteration + 1);
    CHECK_OK(hymnJoinGroupAverage(run->group, &average));
    CHECK(average == (active == run->size ? hymnAvg : hymnOpPremulSum(1.0 / active)));
    int32_t mine = run->rank, all[max_ranks], given = -1;
    CHECK_OK(hymnAllGather(&mine, all, 1, hymnInt32, run->group, NULL));
    for (int rank = 0; rank < run->size; ++rank) CHECK(all[rank] == (rank > iteration ? rank : -7));
    size_t counts[max_ranks];
    for (int rank = 0; rank < run->size; ++rank) counts[rank] = 1;
    CHECK_OK(hymnAllGatherv(&mine, all, counts, hymnInt32, run->group, NULL));
    for (int rank = 0; rank < run->size; ++rank) CHECK(all[rank] == (rank > iteration ? rank : -7));
    CHECK_OK(hymnBroadcast(&given, 1, hymnInt32, 0, run->group, NULL));
    CHECK(given == 5);
  }
  return hymnSuccess;
}

static void test_shadows(hymnWorld_t world) {
  Run run = make_run(world, "shadowed");
  hymnShadowOptions_t options = HYMN_SHADOW_OPTIONS_INIT;
  options.fill = -7;
  options.has_root_fill = 1;
  options.root_fill = 5;
  uint64_t shadowed = 99;
  CHECK_OK(hymnJoinShadowAll(&run.group, 1, call_without_hooks, &run, &options, &shadowed));
  CHECK(shadowed == (uint64_t)(6 * (run.size - 1 - run.rank)));
  CHECK_OK(hymnJoinShadowAll(&run.group, 1, call_without_hooks, &run, &options, NULL));
  end_run(&run);
}

static void test_misuse(hymnWorld_t world) {
  Run run = make_run(world, "misused");
  hymnJoinable_t joinable = HYMN_JOINABLE_INIT;
  hymnJoin_t join = NULL;
  CHECK_FAILS(hymnUsageError, "join is NULL", hymnJoinCreate(&joinable, 1, NULL, NULL));
  CHECK_FAILS(hymnUsageError, "joinable->group is NULL", hymnJoinCreate(&joinable, 1, NULL, &join));
  CHECK_FAILS(hymnUsageError, "joinables is NULL", hymnJoinCreate(NULL, 1, NULL, &join));
  CHECK_FAILS(hymnUsageError, "no joinables", hymnJoinCreate(NULL, 0, NULL, &join));
  joinable.group = run.group;
  joinable.size = 1;
  CHECK_FAILS(hymnUsageError, "joinable->size is 1", hymnJoinCreate(&joinable, 1, NULL, &join));
  joinable.size = sizeof joinable;
  hymnJoinOptions_t options = HYMN_JOIN_OPTIONS_INIT;
  options.divisor = 7;
  CHECK_FAILS(hymnUsageError, "divisor is 7", hymnJoinCreate(&joinable, 1, &options, &join));
  CHECK(join == NULL);
  CHECK_OK(hymnJoinCreate(&joinable, 1, NULL, &join));
  int divisor = -1;
  CHECK_FAILS(hymnUsageError, "number 1", hymnJoinDivisor(join, 1, &divisor));
  CHECK_FAILS(hymnUsageError, "divisor is NULL", hymnJoinDivisor(join, 0, NULL));
  CHECK_OK(hymnJoinDivisor(join, 0, &divisor));
  CHECK(divisor == run.size);
  CHECK_FAILS(hymnUsageError, "joined is NULL", hymnJoinStatus(join, NULL, NULL, NULL, 1, NULL));
  CHECK_FAILS(hymnUsageError, "body is NULL", hymnJoinRun(join, NULL, NULL));
  CHECK_FAILS(hymnUsageError, "join is NULL", hymnJoinNotify(NULL));
  CHECK_FAILS(hymnUsageError, "join is NULL", hymnJoinFree(NULL));
  CHECK_OK(hymnJoinFree(join));
  CHECK_FAILS(hymnUsageError, "body is NULL",
              hymnJoinShadowAll(&run.group, 1, NULL, NULL, NULL, NULL));
  CHECK_FAILS(hymnUsageError, "groups is NULL",
              hymnJoinShadowAll(NULL, 1, call_without_hooks, &run, NULL, NULL));
  end_run(&run);
}

void test_join(hymnWorld_t world) {
  test_hooks(world);
  test_not_enabled(world);
  test_early_termination(world, 0);
  test_early_termination(world, 1);
  test_failing_body(world);
  test_shadows(world);
  test_misuse(world);
}
