// Parameters that take no part, iterations that only add up, and those with several backward
// passes.
#include <algorithm>
#include <stdexcept>

#include "tests/support/errors.hpp"
#include "tests/training/toy_step.hpp"

namespace hymn::test {
namespace {

using training::GradientReducer;
using training::Parameter;
using training::ReducerOptions;

constexpr double untouched = -7;

class Used {
 public:
  Used(World& world, ReducerOptions options) {
    for (int i = 0; i < 4; ++i) model_.add("layer " + std::to_string(i), {5});
    options.find_unused_parameters = true;
    options.first_bucket_bytes = 30;
    options.bucket_bytes = 30;
    reducer_.emplace(world.group(), model_.parameters(), options);
    step_.emplace(world, model_, *reducer_);
  }
  GradientReducer& reducer() { return *reducer_; }
  ToyStep& step() { return *step_; }

  void backward(int iteration, const std::vector<std::size_t>& used) {
    reducer().prepare(used);
    step().give(iteration, used);
    reducer().finish();
  }

 private:
  ToyModel model_;
  std::optional<GradientReducer> reducer_;
  std::optional<ToyStep> step_;
};

// Parameter 1 is used by nobody, 2 by the first rank alone.
void find_unused_on_a_rank(World& world, bool is_view) {
  Used used(world, {.gradient_as_bucket_view = is_view});
  const bool is_first = world.rank() == 0;
  for (int iteration = 0; iteration < 3; ++iteration) {
    for (std::size_t i = 0; i < 4; ++i) ToyModel::fill(used.reducer().gradient(i), untouched);
    used.backward(iteration,
                  is_first ? std::vector<std::size_t>{3, 2, 0} : std::vector<std::size_t>{3, 0});
    const int ranks = world.size();
    used.step().expect(0, toy_average(ranks, 0, iteration));
    used.step().expect(2, toy_average(ranks, {0}, 2, iteration));
    used.step().expect(3, toy_average(ranks, 3, iteration));
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(used.reducer().is_unused(i), i == 1);
    // In a bucket it is nothing, else it is left as it was.
    EXPECT_EQ(ToyModel::value_of(used.reducer().gradient(1)), is_view ? 0 : untouched);
  }
  EXPECT_EQ(used.reducer().buckets().front().front(), 3u);
}

void find_unused(CheckLevel level, bool is_view) {
  on_ranks([is_view](World& world) { find_unused_on_a_rank(world, is_view); }, {.checks = level});
}

TEST(UnusedParameters, test_find_unused_parameters_kwarg_debug_off) {
  find_unused(CheckLevel::off, false);
}
TEST(UnusedParameters, test_find_unused_parameters_kwarg_debug_info) {
  find_unused(CheckLevel::info, false);
}
TEST(UnusedParameters, test_find_unused_parameters_kwarg_debug_detail) {
  find_unused(CheckLevel::detail, false);
}
TEST(UnusedParameters, test_find_unused_parameters_kwarg_grad_is_view_debug_off) {
  find_unused(CheckLevel::off, true);
}
TEST(UnusedParameters, test_find_unused_parameters_kwarg_grad_is_view_debug_info) {
  find_unused(CheckLevel::info, true);
}
TEST(UnusedParameters, test_find_unused_parameters_kwarg_grad_is_view_debug_detail) {
  find_unused(CheckLevel::detail, true);
}

RANK_TEST(UnusedParameters, MayBeAll) {
  Used used(world, {});
  ToyModel::fill(used.reducer().gradient(2), untouched);
  used.backward(0, {});
  for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(used.reducer().is_unused(i));
  EXPECT_EQ(ToyModel::value_of(used.reducer().gradient(2)), untouched);
  used.backward(1, {0, 1, 2, 3});
  used.step().expect_averages(1);
}

RANK_TEST(UnusedParameters, AreNotReady) {
  Used used(world, {});
  const std::vector<std::size_t> some = {0, 2};
  used.reducer().prepare(some);
  expect_error(ErrorKind::usage, [&] { used.reducer().ready(1); },
               {"parameter 1 (layer 1)", "takes no part"});
  used.step().give(0, some);
  used.reducer().finish();
}

// --- no_sync

void accumulate(World& world, bool is_view) {
  ToyModel model;
  model.add("weight", {10, 10}).add("bias", {10});
  GradientReducer reducer(world.group(), model.parameters(), {.gradient_as_bucket_view = is_view});
  ToyStep step(world, model, reducer);
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < 2; ++i) ToyModel::fill(reducer.gradient(i), 0);
    const auto pass = [&](int iteration) {
      reducer.prepare();
      for (std::size_t i = 2; i-- > 0;) {
        model.accumulate(reducer.gradient(i), toy_gradient(world.rank(), i, iteration));
        reducer.ready(i);
      }
      reducer.finish();
    };
    {
      const auto held = reducer.no_sync();
      pass(round);
      pass(round + 1);
    }
    step.expect(0, toy_gradient(world.rank(), 0, round) + toy_gradient(world.rank(), 0, round + 1));
    pass(round + 2);
    for (std::size_t i = 0; i < 2; ++i) {
      double sum = 0;
      for (int k = 0; k < 3; ++k) sum += toy_average(world.size(), i, round + k);
      step.expect(i, sum, 1.3e-6);
    }
  }
}
RANK_TEST(NoSync, test_accumulate_gradients_module) { accumulate(world, false); }
RANK_TEST(NoSync, test_accumulate_gradients_module_with_grad_is_view) { accumulate(world, true); }

// What was used only before is reduced, too.
RANK_TEST(NoSync, GradientsOfBeforeAreNotLost) {
  for (const bool is_view : {false, true}) {
    Used used(world, {.gradient_as_bucket_view = is_view});
    {
      const auto held = used.reducer().no_sync();
      used.backward(0, {1});
    }
    used.backward(1, {3});
    used.step().expect(1, toy_average(world.size(), 1, 0));
    used.step().expect(3, toy_average(world.size(), 3, 1));
    EXPECT_FALSE(used.reducer().is_unused(1));
    EXPECT_TRUE(used.reducer().is_unused(0));
  }
}

// An exception on the way ends it, as does the last of several.
RANK_TEST(NoSync, EndsHoweverItsScopeIsLeft) {
  ToyModel model;
  model.add("a", {3});
  GradientReducer reducer(world.group(), model.parameters());
  ToyStep step(world, model, reducer);
  {
    const auto outer = reducer.no_sync();
    {
      const auto inner = reducer.no_sync();
    }
    step.backward(0);
  }
  step.expect(0, toy_gradient(world.rank(), 0, 0));
  try {
    const auto held = reducer.no_sync();
    reducer.prepare();
    throw std::runtime_error("of the backward pass");
  } catch (const std::runtime_error&) {
  }
  step.give(1, {0});
  reducer.finish();
  step.backward(2);
  step.expect_averages(2);
}

// --- Several backward passes

// Two outputs, each with a pass of its own over other parameters.
void multiple_outputs(World& world, bool is_view) {
  ToyModel model;
  model.add("shared", {6}).add("head 1", {6}).add("head 2", {6});
  GradientReducer reducer(world.group(), model.parameters(),
                          {.first_bucket_bytes = 30, .gradient_as_bucket_view = is_view});
  ToyStep step(world, model, reducer);
  for (int iteration = 0; iteration < 3; ++iteration) {
    reducer.prepare();
    step.give(iteration, {1});
    step.give(iteration, {2, 0});
    reducer.finish();
    step.expect_averages(iteration);
  }
}
RANK_TEST(SeveralPasses, test_multiple_outputs_multiple_backward) {
  multiple_outputs(world, false);
}
RANK_TEST(SeveralPasses, test_multiple_outputs_multiple_backward_grad_is_view) {
  multiple_outputs(world, true);
}

// A weight that two layers share is one parameter, whose gradient comes twice.
RANK_TEST(StaticGraph, test_ddp_weight_sharing) {
  for (const bool is_view : {false, true}) {
    ToyModel model;
    model.add("shared", {50, 3}).add("once", {7}).add("never", {2}).add("here", {3});
    GradientReducer reducer(
        world.group(), model.parameters(),
        {.first_bucket_bytes = 40, .gradient_as_bucket_view = is_view, .static_graph = true});
    ToyStep step(world, model, reducer);
    const bool is_first = world.rank() == 0;
    ToyModel::fill(reducer.gradient(2), untouched);
    for (int iteration = 0; iteration < 4; ++iteration) {
      reducer.prepare();
      const double mine = toy_gradient(world.rank(), 0, iteration);
      ToyModel::fill(reducer.gradient(0), mine);
      reducer.ready(0);
      step.give(iteration, {1});
      if (is_first) step.give(iteration, {3});
      model.accumulate(reducer.gradient(0), mine);
      reducer.ready(0);
      reducer.finish();
      step.expect(0, 2 * toy_average(world.size(), 0, iteration));
      step.expect(1, toy_average(world.size(), 1, iteration));
      step.expect(3, toy_average(world.size(), {0}, 3, iteration));
      EXPECT_TRUE(reducer.is_unused(2));
      EXPECT_EQ(ToyModel::value_of(reducer.gradient(2)), is_view ? 0 : untouched);
    }
  }
}

RANK_TEST(StaticGraph, ThatChangesIsTold) {
  ToyModel model;
  model.add("a", {4}).add("b", {4});
  GradientReducer reducer(world.group(), model.parameters(), {.static_graph = true});
  ToyStep step(world, model, reducer);
  reducer.prepare();
  step.give(0, {0, 0, 1});
  reducer.finish();
  step.expect_averages(0);
  reducer.prepare();
  step.give(0, {0, 0});
  expect_error(ErrorKind::usage, [&] { reducer.ready(0); }, {"parameter 0 (a)", "once more"});
  step.give(1, {1});
  reducer.finish();
  step.expect(1, toy_average(world.size(), 1, 1));
}

}  // namespace
}  // namespace hymn::test
