// Averages of gradients, bucket by bucket.
#include <algorithm>
#include <numeric>

#include "tests/support/errors.hpp"
#include "tests/support/spoilt.hpp"
#include "tests/training/toy_step.hpp"

namespace hymn::test {
namespace {

using training::GradientReducer;
using training::Parameter;
using training::ReducerOptions;

ToyModel small_model() {
  ToyModel model;
  model
      .add("conv.weight", {8, 3, 3, 3}, DataType::float32, {27, 1, 9, 3})  // channels last
      .add("conv.bias", {8})
      .add("fc.weight", {10, 64})
      .add("fc.bias", {10})
      .add("scale", {});
  return model;
}

using Buckets = std::vector<std::vector<std::size_t>>;

RANK_TEST(GradientReducer, AveragesGradients) {
  for (const bool is_view : {false, true}) {
    ToyModel model = small_model();
    GradientReducer reducer(world.group(), model.parameters(),
                            {.gradient_as_bucket_view = is_view});
    ToyStep step(world, model, reducer);
    for (int iteration = 0; iteration < 4; ++iteration) {
      step.backward(iteration);
      step.expect_averages(iteration);
    }
  }
}

RANK_TEST(GradientReducer, TakesEveryFractionalType) {
  ToyModel model;
  for (const DataType dtype : {DataType::float16, DataType::bfloat16, DataType::float32,
                               DataType::float64, DataType::complex64})
    model.add(std::string(to_string(dtype)), {5, 2}, dtype).add("more", {3}, dtype);
  GradientReducer reducer(world.group(), model.parameters());
  EXPECT_EQ(reducer.buckets().size(), 5u);
  ToyStep step(world, model, reducer);
  for (int iteration = 0; iteration < 3; ++iteration) {
    step.backward(iteration);
    step.expect_averages(iteration);
  }
}

// Complex parameters are averaged as such: real parts and imaginary ones.
RANK_TEST(GradientReducer, test_ddp_complex_params) {
  ToyModel model;
  model.add("fft", {4, 4}, DataType::complex64).add("out", {2}, DataType::float32);
  GradientReducer reducer(world.group(), model.parameters());
  ToyStep step(world, model, reducer);
  step.backward(0);
  step.expect_averages(0);
}

RANK_TEST(GradientReducer, AverageOfLargeHalvesIsFinite) {
  ToyModel model;
  model.add("half", {100}, DataType::float16);
  std::vector<Parameter> parameters = model.parameters();
  GradientReducer reducer(world.group(), parameters);
  ToyModel::fill(parameters[0].gradient, 32768);
  reducer.ready(0);
  reducer.finish();
  EXPECT_EQ(ToyModel::value_of(parameters[0].gradient), 32768);
}

RANK_TEST(GradientReducer, InitialValuesAreThoseOfTheFirstRank) {
  for (const bool broadcasts : {true, false}) {
    ToyModel model = small_model();
    const std::vector<Parameter> parameters = model.parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i)
      ToyModel::fill(parameters[i].data, toy_gradient(world.rank(), i, 0));
    GradientReducer reducer(world.group(), parameters, {.broadcast_parameters = broadcasts});
    for (std::size_t i = 0; i < parameters.size(); ++i)
      EXPECT_EQ(ToyModel::value_of(parameters[i].data),
                toy_gradient(broadcasts ? 0 : world.rank(), i, 0));
  }
}

RANK_TEST(GradientReducer, TheFirstBucketIsSmall) {
  ToyModel model;
  for (int i = 0; i < 6; ++i) model.add("layer " + std::to_string(i), {25});  // 100 bytes
  const ReducerOptions options{.first_bucket_bytes = 50, .bucket_bytes = 200};
  GradientReducer reducer(world.group(), model.parameters(), options);
  EXPECT_EQ(reducer.buckets(), (Buckets{{5}, {4, 3}, {2, 1}, {0}}));
}

RANK_TEST(GradientReducer, TypesHaveBucketsOfTheirOwn) {
  ToyModel model;
  for (int i = 0; i < 3; ++i) model.add("float", {25}).add("half", {25}, DataType::float16);
  GradientReducer reducer(world.group(), model.parameters());
  EXPECT_EQ(reducer.buckets(), (Buckets{{5, 3, 1}, {4, 2, 0}}));
}

// Ranks differ in what is ready first; what the first one has seen is the order for all.
RANK_TEST(GradientReducer, BucketsAreMadeAnewInTheOrderOfTheFirstRank) {
  ToyModel model;
  for (int i = 0; i < 6; ++i) model.add("layer", {25});
  const ReducerOptions options{.first_bucket_bytes = 50, .bucket_bytes = 200};
  GradientReducer reducer(world.group(), model.parameters(), options);
  ToyStep step(world, model, reducer);
  std::vector<std::size_t> order = {0, 1, 2, 3, 4, 5};
  if (world.rank() != 0) std::ranges::reverse(order);
  for (int iteration = 0; iteration < 3; ++iteration) {
    step.backward(iteration, order);
    step.expect_averages(iteration);
    EXPECT_EQ(reducer.buckets(), iteration == 0 ? (Buckets{{5}, {4, 3}, {2, 1}, {0}})
                                                : (Buckets{{0}, {1, 2}, {3, 4}, {5}}));
  }
}

RANK_TEST(GradientReducer, GradientsMoveWithTheirContents) {
  ToyModel model;
  for (int i = 0; i < 4; ++i) model.add("layer", {25});
  GradientReducer reducer(world.group(), model.parameters(),
                          {.first_bucket_bytes = 50, .gradient_as_bucket_view = true});
  ToyStep step(world, model, reducer);
  step.backward(0, {0, 1, 2, 3});
  const void* before = reducer.gradient(0).data;
  reducer.prepare();
  EXPECT_NE(reducer.gradient(0).data, before);
  step.expect_averages(0);
  for (std::size_t i = 0; i < 4; ++i) reducer.ready(i);
  reducer.finish();
  step.expect_averages(0);  // of averages
}

RANK_TEST(GradientReducer, TakesAModelWithoutParameters) {
  GradientReducer reducer(world.group(), {});
  EXPECT_TRUE(reducer.buckets().empty());
  for (int iteration = 0; iteration < 3; ++iteration) {
    reducer.prepare();
    reducer.finish();
  }
}

RANK_TEST(GradientReducer, TakesParametersWithoutElements) {
  ToyModel model;
  model.add("none", {0, 3}).add("some", {3}).add("no more", {0}, DataType::float64);
  for (const bool is_view : {false, true}) {
    GradientReducer reducer(world.group(), model.parameters(),
                            {.gradient_as_bucket_view = is_view});
    ToyStep step(world, model, reducer);
    for (int iteration = 0; iteration < 3; ++iteration) {
      step.backward(iteration);
      step.expect_averages(iteration);
    }
  }
}

// A forward pass without gradients (no backward pass follows) leaves them as they are.
RANK_TEST(GradientReducer, test_no_grad) {
  ToyModel model = small_model();
  std::vector<Parameter> parameters = model.parameters();
  GradientReducer reducer(world.group(), parameters);
  for (const Parameter& parameter : parameters)
    EXPECT_EQ(ToyModel::value_of(parameter.gradient), 0);
  ToyStep step(world, model, reducer);
  step.backward(1);
  step.expect_averages(1);
}

RANK_TEST(GradientReducer, WorksOnGroupsOfSome) {
  NEEDS_RANKS(2);
  std::vector<int> ranks = everybody(world);
  ranks.erase(ranks.begin());
  ProcessGroup group = world.new_group(ranks);
  if (!group.is_member()) return;
  ToyModel model = small_model();
  GradientReducer reducer(group, model.parameters());
  ToyStep step(world, model, reducer, group);
  step.backward(0);
  step.expect_averages(0);
}

// --- Misuse

RANK_TEST(GradientReducer, test_param_layout_mismatch_error) {
  NEEDS_RANKS(2);
  ToyModel model;
  const bool is_first = world.rank() == 0;
  model.add("same", {4})
      .add("conv", {2, 3, 5, 5}, DataType::float32,
           is_first ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{75, 1, 15, 3});
  const std::string text = expect_error(
      ErrorKind::usage, [&] { GradientReducer reducer(world.group(), model.parameters()); },
      {"appears not to match strides of the same param in process 0", "parameter 1", "conv",
       "[2, 3, 5, 5]", "[75, 25, 5, 1]", "[75, 1, 15, 3]"});
  EXPECT_EQ(text.find("rank 1:") != std::string::npos, is_first) << text;
  world.group().barrier();  // the group goes on
}

RANK_TEST(GradientReducer, RefusesOtherModelsOnAllRanks) {
  NEEDS_RANKS(2);
  const bool is_last = world.rank() + 1 == world.size();
  const auto refused = [&](ToyModel& model, const ReducerOptions& options,
                           std::initializer_list<std::string_view> words) {
    expect_error(
        ErrorKind::usage,
        [&] { GradientReducer reducer(world.group(), model.parameters(), options); }, words);
  };
  ToyModel types;
  types.add("w", {4}, is_last ? DataType::float64 : DataType::float32);
  refused(types, {}, {"float64", "float32", "parameter 0"});
  ToyModel counts;
  counts.add("w", {4});
  if (is_last) counts.add("b", {4});
  refused(counts, {}, {"2 parameters", "has 1"});
  ToyModel same;
  same.add("w", {4});
  refused(same, {.bucket_bytes = is_last ? 100u : 200u}, {"100 bytes", "200 bytes", "options"});
  // A rank that cannot even say what it has.
  ToyModel wrong;
  wrong.add("w", {4}, is_last ? DataType::int32 : DataType::float32);
  refused(wrong, {}, {"int32", "no averages"});
  GradientReducer reducer(world.group(), same.parameters());
}

RANK_TEST(GradientReducer, test_ddp_with_lazy_parameters) {
  ToyModel model;
  model.add("known", {4}).add("lazy", {4});
  std::vector<Parameter> parameters = model.parameters();
  parameters[1].data = {};
  expect_error(ErrorKind::usage, [&] { GradientReducer reducer(world.group(), parameters); },
               {"Modules with uninitialized parameters", "parameter 1 (lazy)", "remedy"});
}

RANK_TEST(GradientReducer, RefusesGradientsThatLieOtherwise) {
  ToyModel model;
  model.add("w", {4, 2});
  std::vector<Parameter> parameters = model.parameters();
  const std::vector<std::int64_t> strides = {1, 4};
  parameters[0].gradient.strides = strides;
  expect_error(ErrorKind::usage, [&] { GradientReducer reducer(world.group(), parameters); },
               {"the gradient of parameter 0 (w)", "[2, 1]", "[1, 4]"});
  parameters[0].gradient = {};
  expect_error(ErrorKind::usage, [&] { GradientReducer reducer(world.group(), parameters); },
               {"no place for its gradient"});
}

RANK_TEST(GradientReducer, RefusesLayoutsWithGaps) {
  std::vector<float> memory(100);
  const auto refused = [&](std::vector<std::int64_t> shape, std::vector<std::int64_t> strides,
                           std::size_t count) {
    BufferView data(memory.data(), count, DataType::float32);
    data.shape = shape;
    data.strides = strides;
    expect_error(ErrorKind::usage,
                 [&] { GradientReducer reducer(world.group(), {{"part", data, data}}); },
                 {"parameter 0 (part)", "do not lie densely"});
  };
  refused({4, 2}, {4, 1}, 8);  // of a wider matrix
  refused({4, 2}, {1, 1}, 8);  // the same elements again and again
  refused({4, 2}, {2, 1}, 7);
  refused({4, 2}, {2}, 8);
  refused({}, {1}, 8);
}

RANK_TEST(GradientReducer, RefusesWhatIsOutOfTurn) {
  ToyModel model;
  model.add("a", {4}).add("b", {4});
  GradientReducer reducer(world.group(), model.parameters(), {.gradient_as_bucket_view = true});
  const auto refused = [&](const std::function<void()>& call,
                           std::initializer_list<std::string_view> words) {
    expect_error(ErrorKind::usage, call, words);
  };
  refused([&] { reducer.finish(); }, {"no iteration has begun"});
  refused([&] { reducer.ready(0); }, {"parameter 0 (a)", "before prepare()"});
  refused([&] { reducer.ready(2); }, {"no parameter 2 among 2"});
  refused([&] { (void)reducer.gradient(2); }, {"no parameter 2 among 2"});
  const std::vector<std::size_t> used = {0};
  refused([&] { reducer.prepare(used); }, {"only some parameters", "find_unused_parameters"});
  reducer.prepare();
  refused([&] { reducer.prepare(); }, {"before the last one has ended"});
  refused([&] { const auto held = reducer.no_sync(); }, {"in the midst of an iteration"});
  reducer.ready(0);
  refused([&] { reducer.ready(0); }, {"parameter 0 (a)", "once more"});
  reducer.ready(1);
  reducer.finish();
}

// The others wait for a bucket that cannot come: they are told why.
RANK_TEST(GradientReducer, AGradientThatIsNeverReadyEndsTheGroup) {
  ToyModel model;
  model.add("a", {4}).add("b", {4}).add("c", {4});
  ProcessGroup group = fresh_group(world, "unready");
  const bool forgets = world.rank() == 0;
  // Another rank may hear of it before its own reducer is made.
  const auto iterate = [&] {
    GradientReducer reducer(group, model.parameters());
    reducer.ready(2);
    if (!forgets) reducer.ready(1);
    reducer.ready(0);
    reducer.finish();
  };
  expect_error(forgets ? ErrorKind::usage : ErrorKind::aborted, iterate,
               {"parameter 1 (b) is not ready", "unready"});
}

// A new group and a new reducer, after the old ones have been given up.
RANK_TEST(GradientReducer, test_failure_recovery) {
  ToyModel model = small_model();
  {
    ProcessGroup group = fresh_group(world, "fails");
    GradientReducer reducer(group, model.parameters());
    ToyStep step(world, model, reducer, group);
    step.backward(0);
    step.expect_averages(0);
    world.group().barrier();
    group.abort("for the test");
    expect_error(ErrorKind::aborted, [&] {
      reducer.prepare();
      for (std::size_t i = 0; i < model.size(); ++i) reducer.ready(i);
      reducer.finish();
    });
  }
  GradientReducer reducer(world.group(), model.parameters());
  ToyStep step(world, model, reducer);
  for (int iteration = 1; iteration < 3; ++iteration) {
    step.backward(iteration);
    step.expect_averages(iteration);
  }
}

RANK_TEST(GradientReducer, MayGoWhileItReduces) {
  ToyModel model;
  model.add("a", {100'000}).add("b", {4});
  ProcessGroup group = fresh_group(world, "left");
  {
    GradientReducer reducer(group, model.parameters(), {.first_bucket_bytes = 1});
    reducer.ready(1);
    reducer.ready(0);
  }
  group.wait_for_pending_works();
}

}  // namespace
}  // namespace hymn::test
