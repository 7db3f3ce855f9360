// The C API of gradient reducers: rank r gives r + 1 for every gradient.
#include "hymn/hymn_training.h"
#include "tests/c/check.h"

enum { rows = 3, columns = 4, elements = rows * columns };

typedef struct {
  float weight[elements], weight_gradient[elements];
  double bias, bias_gradient;
  int rank, size;
} Model;

static const int64_t by_columns[] = {1, rows};
static const int64_t shape[] = {rows, columns};

static void describe(Model* model, hymnParameter_t parameters[2]) {
  const hymnParameter_t none = HYMN_PARAMETER_INIT;
  parameters[0] = parameters[1] = none;
  parameters[0].name = "weight";
  parameters[0].data = model->weight;
  parameters[0].gradient = model->weight_gradient;
  parameters[0].shape = shape;
  parameters[0].strides = by_columns;
  parameters[0].dimensions = 2;
  parameters[1].name = "bias";
  parameters[1].data = &model->bias;
  parameters[1].gradient = &model->bias_gradient;
  parameters[1].dtype = hymnFloat64;
}

static Model make_model(hymnWorld_t world) {
  Model model = {.rank = -1, .size = -1};
  CHECK_OK(hymnWorldRank(world, &model.rank));
  CHECK_OK(hymnWorldSize(world, &model.size));
  for (int i = 0; i < elements; ++i) model.weight[i] = (float)(model.rank + i);
  model.bias = model.rank;
  return model;
}

static void fill(Model* model, double value) {
  for (int i = 0; i < elements; ++i) model->weight_gradient[i] = (float)value;
  model->bias_gradient = value;
}

static void expect(const Model* model, double value) {
  for (int i = 0; i < elements; ++i) CHECK(model->weight_gradient[i] == (float)value);
  CHECK(model->bias_gradient == value);
}

static hymnGradientReducer_t make(hymnWorld_t world, Model* model,
                                  const hymnReducerOptions_t* options) {
  hymnGroup_t group = NULL;
  CHECK_OK(hymnWorldGroup(world, &group));
  hymnParameter_t parameters[2];
  describe(model, parameters);
  hymnGradientReducer_t reducer = NULL;
  CHECK_OK(hymnGradientReducerCreate(group, parameters, 2, options, &reducer));
  return reducer;
}

static void give_both(hymnGradientReducer_t reducer) {
  int is_complete = -1;
  CHECK_OK(hymnGradientReducerReady(reducer, 1, &is_complete));
  CHECK(is_complete == 0);
  CHECK_OK(hymnGradientReducerReady(reducer, 0, &is_complete));
  CHECK(is_complete == 1);
  CHECK_OK(hymnGradientReducerFinish(reducer));
}

static double average_of(const Model* model) { return (model->size + 1) / 2.0; }

static void test_averages(hymnWorld_t world) {
  Model model = make_model(world);
  const hymnGradientReducer_t reducer = make(world, &model, NULL);
  CHECK(model.bias == 0 && model.weight[1] == 1);  // the first rank's
  for (int i = 0; i < 3; ++i) {
    fill(&model, model.rank + 1);
    CHECK_OK(hymnGradientReducerPrepare(reducer));
    give_both(reducer);
    expect(&model, average_of(&model));
  }
  size_t buckets = 0, of_weight = 9, of_bias = 9;
  CHECK_OK(hymnGradientReducerBucketCount(reducer, &buckets));
  CHECK_OK(hymnGradientReducerBucketOf(reducer, 0, &of_weight));
  CHECK_OK(hymnGradientReducerBucketOf(reducer, 1, &of_bias));
  CHECK(buckets == 2 && of_weight == 1 && of_bias == 0);  // types do not mix
  CHECK_OK(hymnGradientReducerFree(reducer));
}

static void test_no_sync(hymnWorld_t world) {
  Model model = make_model(world);
  const hymnGradientReducer_t reducer = make(world, &model, NULL);
  CHECK(hymnGradientReducerEndNoSync(reducer) == hymnUsageError);
  CHECK_OK(hymnGradientReducerBeginNoSync(reducer));
  CHECK(hymnGradientReducerBeginNoSync(reducer) == hymnUsageError);
  fill(&model, model.rank + 1);
  give_both(reducer);
  expect(&model, model.rank + 1);
  CHECK_OK(hymnGradientReducerEndNoSync(reducer));
  fill(&model, 2.0 * (model.rank + 1));
  give_both(reducer);
  expect(&model, 2 * average_of(&model));
  CHECK_OK(hymnGradientReducerFree(reducer));
}

static void test_views_that_are_kept(hymnWorld_t world) {
  Model model = make_model(world);
  hymnReducerOptions_t options = HYMN_REDUCER_OPTIONS_INIT;
  options.gradient_as_bucket_view = 1;
  options.find_unused_parameters = 1;
  const hymnGradientReducer_t reducer = make(world, &model, &options);
  const size_t used = 1;
  CHECK_OK(hymnGradientReducerPrepareUsed(reducer, &used, 1));
  void* gradient = NULL;
  hymnGradMemory_t memory = NULL;
  CHECK_OK(hymnGradientReducerGradient(reducer, 1, &gradient, &memory));
  CHECK(memory != NULL);
  *(double*)gradient = model.rank + 1;
  int is_complete = 0, weight_is_unused = 0, bias_is_unused = 1;
  CHECK_OK(hymnGradientReducerReady(reducer, 1, &is_complete));
  CHECK(is_complete == 1);
  CHECK_OK(hymnGradientReducerFinish(reducer));
  CHECK_OK(hymnGradientReducerIsUnused(reducer, 0, &weight_is_unused));
  CHECK_OK(hymnGradientReducerIsUnused(reducer, 1, &bias_is_unused));
  CHECK(weight_is_unused == 1 && bias_is_unused == 0);
  CHECK_OK(hymnGradientReducerFree(reducer));
  CHECK(*(double*)gradient == average_of(&model));
  CHECK_OK(hymnGradMemoryFree(memory));
}

// --- Hooks ---------------------------------------------------------------------------------------

typedef struct {
  int started, completed;
  size_t parameters;
} Seen;

static hymnResult_t start(hymnGradBucket_t bucket, hymnWork_t* work, void* user) {
  Seen* seen = user;
  ++seen->started;
  size_t first = 9, n = 0, index = 9, count = 0;
  int is_last = -1, divisor = 0, size = 0;
  hymnDataType_t dtype = hymnBool;
  hymnGroup_t group = NULL;
  CHECK_OK(hymnGradBucketParameters(bucket, &first, 1, &n));
  seen->parameters += n;
  CHECK_OK(hymnGradBucketIndex(bucket, &index, &is_last));
  CHECK_OK(hymnGradBucketBuffer(bucket, NULL, &count, &dtype));
  CHECK(is_last == (index == 1) && count == (first == 0 ? elements : 1));
  CHECK(dtype == (first == 0 ? hymnFloat32 : hymnFloat64));
  CHECK_OK(hymnGradBucketDivisor(bucket, &divisor));
  CHECK_OK(hymnGradBucketGroup(bucket, &group));
  CHECK_OK(hymnGroupSize(group, &size));
  CHECK(divisor == size);
  return hymnGradBucketAverage(bucket, work);
}

/// Each element becomes `factor` times what it was, plus `summand`.
static void change(hymnGradBucket_t bucket, double factor, double summand) {
  void* data = NULL;
  size_t count = 0;
  hymnDataType_t dtype = hymnBool;
  CHECK_OK(hymnGradBucketBuffer(bucket, &data, &count, &dtype));
  for (size_t i = 0; i < count; ++i) {
    if (dtype == hymnFloat32)
      ((float*)data)[i] = (float)(factor * ((float*)data)[i] + summand);
    else
      ((double*)data)[i] = factor * ((double*)data)[i] + summand;
  }
}

static hymnResult_t halve(hymnGradBucket_t bucket, void* user) {
  ++((Seen*)user)->completed;
  change(bucket, 0.5, 0);
  return hymnSuccess;
}

static hymnResult_t set_to_five(hymnGradBucket_t bucket, hymnWork_t* work, void* user) {
  (void)work, (void)user;  // nothing is in flight
  change(bucket, 0, 5);
  return hymnSuccess;
}

/// Trains one step with it, and frees it.
static void train_with(hymnWorld_t world, hymnCommHook_t hook, double average_is) {
  Model model = make_model(world);
  hymnReducerOptions_t options = HYMN_REDUCER_OPTIONS_INIT;
  options.hook = hook;
  const hymnGradientReducer_t reducer = make(world, &model, &options);
  CHECK_OK(hymnCommHookFree(hook));
  fill(&model, model.rank + 1);
  give_both(reducer);
  expect(&model, average_is);
  CHECK_OK(hymnGradientReducerFree(reducer));
}

static void test_hooks(hymnWorld_t world) {
  const Model model = make_model(world);
  hymnCommHook_t hook = NULL, inner = NULL;
  Seen seen = {0, 0, 0};
  CHECK_OK(hymnCommHookCreate(start, halve, &seen, &hook));
  train_with(world, hook, average_of(&model) / 2);
  CHECK(seen.started == 2 && seen.completed == 2 && seen.parameters == 2);
  CHECK_OK(hymnCommHookCreate(set_to_five, NULL, NULL, &hook));
  train_with(world, hook, 5);
  CHECK_OK(hymnCommHookAllReduce(&inner));
  CHECK_OK(hymnCommHookFp16Compress(inner, &hook));
  CHECK_OK(hymnCommHookFree(inner));
  train_with(world, hook, average_of(&model));
  CHECK_OK(hymnCommHookBf16Compress(NULL, &hook));
  train_with(world, hook, average_of(&model));
  hymnPowerSgdOptions_t options = HYMN_POWER_SGD_OPTIONS_INIT;
  options.start_iteration = 2;
  CHECK_OK(hymnCommHookPowerSgd(&options, &hook));
  train_with(world, hook, average_of(&model));
  options.start_iteration = 1;  // buckets are made anew after it
  CHECK(hymnCommHookPowerSgd(&options, &hook) == hymnUsageError);
  CHECK(hymnCommHookCreate(NULL, NULL, NULL, &hook) == hymnUsageError);
}

static hymnResult_t fails(hymnGradBucket_t bucket, hymnWork_t* work, void* user) {
  (void)bucket, (void)work, (void)user;
  return hymnConfigError;
}

static void test_a_hook_that_fails(hymnWorld_t world) {
  Model model = make_model(world);
  hymnCommHook_t hook = NULL;
  CHECK_OK(hymnCommHookCreate(fails, NULL, NULL, &hook));
  int ranks[64];
  for (int i = 0; i < model.size; ++i) ranks[i] = i;
  hymnGroup_t all = NULL, group = NULL;
  CHECK_OK(hymnWorldGroup(world, &all));
  CHECK_OK(hymnGroupCreate(world, ranks, (size_t)model.size, NULL, &group));
  hymnParameter_t parameters[2];
  describe(&model, parameters);
  hymnReducerOptions_t options = HYMN_REDUCER_OPTIONS_INIT;
  options.hook = hook;
  hymnGradientReducer_t reducer = NULL;
  CHECK_OK(hymnGradientReducerCreate(group, parameters, 2, &options, &reducer));
  CHECK_OK(hymnBarrier(all, NULL));
  hymnResult_t result = hymnGradientReducerReady(reducer, 1, NULL);
  CHECK(result == hymnConfigError || result == hymnAbortedError);
  CHECK_OK(hymnGradientReducerFree(reducer));
  CHECK_OK(hymnCommHookFree(hook));
  CHECK_OK(hymnGroupFree(group));
}

// --- Joins ---------------------------------------------------------------------------------------

typedef struct {
  Model model;
  hymnGradientReducer_t reducer;
} Run;

static hymnResult_t train(void* user) {
  Run* run = user;
  Model* model = &run->model;
  for (int i = 0; i <= model->rank; ++i) {
    fill(model, 1);
    const hymnResult_t prepared = hymnGradientReducerPrepare(run->reducer);
    if (prepared != hymnSuccess) return prepared;
    give_both(run->reducer);
    expect(model, (float)((model->size - i) / (double)model->size));
  }
  return hymnSuccess;
}

static void test_uneven_inputs(hymnWorld_t world) {
  Run run = {make_model(world), NULL};
  if (run.model.size > 2) return;  // thirds are not exact
  run.reducer = make(world, &run.model, NULL);
  hymnJoinable_t joinable = HYMN_JOINABLE_INIT;
  CHECK_OK(hymnGradientReducerJoinable(run.reducer, &joinable));
  hymnJoin_t join = NULL;
  CHECK_OK(hymnJoinCreate(&joinable, 1, NULL, &join));
  CHECK_OK(hymnJoinRun(join, train, &run));
  uint64_t iterations = 0;
  CHECK_OK(hymnJoinStatus(join, &iterations, NULL, NULL, 0, NULL));
  CHECK(iterations == (uint64_t)run.model.size);
  CHECK_OK(hymnJoinFree(join));
  CHECK_OK(hymnGradientReducerFree(run.reducer));
}

static void test_misuse(hymnWorld_t world) {
  Model model = make_model(world);
  hymnGradientReducer_t reducer = make(world, &model, NULL);
  CHECK(hymnGradientReducerReady(reducer, 2, NULL) == hymnUsageError);
  CHECK(hymnGradientReducerFinish(reducer) == hymnUsageError);
  CHECK(hymnGradientReducerPrepareUsed(reducer, NULL, 1) == hymnUsageError);
  size_t bucket = 7;
  CHECK(hymnGradientReducerBucketOf(reducer, 2, &bucket) == hymnUsageError && bucket == 7);
  void* gradient = NULL;
  hymnGradMemory_t memory = (hymnGradMemory_t)&model;
  CHECK_OK(hymnGradientReducerGradient(reducer, 1, &gradient, &memory));
  CHECK(gradient == &model.bias_gradient && memory == NULL);
  CHECK_OK(hymnGradientReducerFree(reducer));
  CHECK(hymnGradientReducerPrepare(NULL) == hymnUsageError);
  CHECK(hymnGradientReducerFree(NULL) == hymnUsageError);
  // Without a place for a gradient, on all ranks.
  hymnGroup_t group = NULL;
  CHECK_OK(hymnWorldGroup(world, &group));
  hymnParameter_t parameters[2];
  describe(&model, parameters);
  parameters[1].gradient = NULL;
  CHECK(hymnGradientReducerCreate(group, parameters, 2, NULL, &reducer) == hymnUsageError);
  CHECK(reducer == NULL);
  parameters[1].size = 3;
  CHECK(hymnGradientReducerCreate(group, parameters, 2, NULL, &reducer) == hymnUsageError);
}

int main(void) {
  hymnWorld_t world = NULL;
  CHECK_OK(hymnInit(&world, NULL));
  test_averages(world);
  test_no_sync(world);
  test_views_that_are_kept(world);
  test_hooks(world);
  test_a_hook_that_fails(world);
  test_uneven_inputs(world);
  test_misuse(world);
  CHECK_OK(hymnFinalize(world));
  return 0;
}
