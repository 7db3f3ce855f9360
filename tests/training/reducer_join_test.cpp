// Ranks with unequal inputs train together.
#include "hymn/gradient_hooks.hpp"
#include "tests/training/toy_step.hpp"

namespace hymn::test {
namespace {

using training::GradientReducer;
using training::Parameter;
using training::ReducerOptions;

/// Rank r has r + 2 inputs.
int inputs_of(int rank) { return rank + 2; }

std::vector<int> active_in(int iteration, int ranks) {
  std::vector<int> active;
  for (int rank = 0; rank < ranks; ++rank)
    if (iteration < inputs_of(rank)) active.push_back(rank);
  return active;
}

void train_unevenly(World& world, ReducerOptions options, JoinDivisor divisor) {
  ToyModel model;
  for (int i = 0; i < 5; ++i) model.add("layer " + std::to_string(i), {30});
  options.first_bucket_bytes = 100;
  options.bucket_bytes = 200;
  std::vector<Parameter> parameters = model.parameters();
  GradientReducer reducer(world.group(), parameters, options);
  ToyStep step(world, model, reducer);
  Join join({&reducer}, {.divisor = divisor});
  for (int epoch = 0; epoch < 2; ++epoch) {
    join.run([&] {
      for (int iteration = 0; iteration < inputs_of(world.rank()); ++iteration) {
        const std::vector<int> active = active_in(iteration, world.size());
        const std::vector<std::size_t> order = {0, 1, 2, 3, 4};
        if (options.find_unused_parameters)
          reducer.prepare(order);
        else
          reducer.prepare();
        step.give(iteration, order);
        reducer.finish();
        const int ranks =
            divisor == JoinDivisor::active ? static_cast<int>(active.size()) : world.size();
        for (const std::size_t i : order)
          step.expect(i, toy_average(ranks, active, i, iteration), 1e-6);
        for (std::size_t i = 0; i < parameters.size(); ++i)
          ToyModel::fill(parameters[i].data, 100 * epoch + iteration);
      }
    });
    // All have what the last rank has learnt.
    for (const Parameter& parameter : parameters)
      EXPECT_EQ(ToyModel::value_of(parameter.data), 100 * epoch + inputs_of(world.size() - 1) - 1);
  }
}

RANK_TEST(ReducerJoin, WhoRunsOutGivesNothing) {
  for (const JoinDivisor divisor : {JoinDivisor::initial, JoinDivisor::active}) {
    train_unevenly(world, {}, divisor);
    train_unevenly(world, {.gradient_as_bucket_view = true}, divisor);
  }
}
RANK_TEST(ReducerJoin, WithUnusedParameters) {
  train_unevenly(world, {.find_unused_parameters = true}, JoinDivisor::initial);
}
RANK_TEST(ReducerJoin, WithAStaticGraph) {
  train_unevenly(world, {.static_graph = true}, JoinDivisor::active);
}
RANK_TEST(ReducerJoin, WithAHook) {
  train_unevenly(world, {.hook = training::all_reduce_hook()}, JoinDivisor::active);
}

RANK_TEST(ReducerJoin, WithPowerSgd) {
  ToyModel model;
  model.add("matrix", {30, 20}).add("bias", {5});
  std::vector<Parameter> parameters = model.parameters();
  GradientReducer reducer(world.group(), parameters,
                          {.hook = training::power_sgd({.start_iteration = 2})});
  ToyStep step(world, model, reducer);
  Join join({&reducer});
  for (int epoch = 0; epoch < 2; ++epoch)
    join.run([&] {
      for (int iteration = 0; iteration < 2 * inputs_of(world.rank()); ++iteration) {
        step.backward(iteration);
        step.expect(1,
                    toy_average(world.size(), active_in(iteration / 2, world.size()), 1, iteration),
                    1e-5);
      }
    });
}

// Who has run out is given other buckets while it shadows; what it writes where its gradients were
// is taken from there.
RANK_TEST(ReducerJoin, ViewsStayUntilPrepare) {
  ToyModel model;
  model.add("a", {10}).add("b", {10});
  GradientReducer reducer(
      world.group(), model.parameters(),
      {.first_bucket_bytes = 1, .bucket_bytes = 1, .gradient_as_bucket_view = true});
  ToyStep step(world, model, reducer);
  Join join({&reducer});
  const bool is_first = world.rank() == 0;
  BufferView before;
  join.run([&] {
    for (int iteration = 0; iteration < (is_first ? 1 : 3); ++iteration)
      step.backward(iteration, {0, 1});
    before = reducer.gradient(0);
  });
  ToyModel::fill(before, 7);
  reducer.prepare();
  EXPECT_EQ(ToyModel::value_of(reducer.gradient(0)), 7);
  step.give(5, {0, 1});
  reducer.finish();
  step.expect_averages(5);
}

// What a rank without input will use later is not taken for unused.
RANK_TEST(ReducerJoin, AStaticGraphIsNotThatOfTheOthersAlone) {
  NEEDS_RANKS(2);
  ToyModel model;
  model.add("a", {10}).add("first rank's", {10});
  GradientReducer reducer(world.group(), model.parameters(), {.static_graph = true});
  ToyStep step(world, model, reducer);
  Join join({&reducer});
  const bool is_first = world.rank() == 0;
  for (int epoch = 0; epoch < 2; ++epoch)
    join.run([&] {
      for (int iteration = 0; iteration < 2 && (epoch == 1 || !is_first); ++iteration) {
        step.backward(iteration,
                      is_first ? std::vector<std::size_t>{1, 0} : std::vector<std::size_t>{0});
        if (epoch == 1) step.expect(1, toy_average(world.size(), {0}, 1, iteration), 1e-6);
      }
    });
}

// Iterations that reduce nothing are not shadowed as if they did.
RANK_TEST(ReducerJoin, WithNoSync) {
  ToyModel model;
  model.add("a", {10}).add("b", {10});
  GradientReducer reducer(world.group(), model.parameters());
  ToyStep step(world, model, reducer);
  Join join({&reducer});
  join.run([&] {
    for (int iteration = 0; iteration < 2 * inputs_of(world.rank()); ++iteration) {
      if (iteration % 2 == 0) {
        const auto held = reducer.no_sync();
        step.backward(iteration);
        continue;
      }
      step.backward(iteration);
      const std::vector<int> active = active_in(iteration / 2, world.size());
      for (std::size_t i = 0; i < 2; ++i)
        step.expect(i, toy_average(world.size(), active, i, iteration), 1e-6);
    }
  });
}

/// The first rank runs out behind an iteration that reduces nothing: what it has gathered there
/// goes with the next one that the others reduce, and with no other. `before`: so many have been
/// reduced by all, after the first of which buckets are made anew.
void run_out_inside_no_sync(World& world, ReducerOptions options, int before) {
  ToyModel model;
  model.add("a", {10}).add("b", {10});
  options.first_bucket_bytes = options.bucket_bytes = 1;
  GradientReducer reducer(world.group(), model.parameters(), options);
  ToyStep step(world, model, reducer);
  std::vector<int> others(static_cast<std::size_t>(world.size() - 1));
  std::iota(others.begin(), others.end(), 1);
  Join join({&reducer});
  join.run([&] {
    for (int iteration = 0; iteration < before; ++iteration) step.backward(iteration, {0, 1});
    {
      const auto held = reducer.no_sync();
      step.backward(before, {0, 1});
    }
    if (world.rank() == 0) return;
    for (int iteration = before + 1; iteration < before + 3; ++iteration) {
      step.backward(iteration, {0, 1});
      for (std::size_t i = 0; i < 2; ++i) {
        double average = toy_average(world.size(), others, i, iteration);
        if (iteration == before + 1) average += toy_average(world.size(), {0}, i, before);
        step.expect(i, average, 1e-6);
      }
    }
  });
}

RANK_TEST(ReducerJoin, WhatWasGatheredBeforeIsNotLost) {
  NEEDS_RANKS(2);
  for (int before = 0; before < 3; ++before) {
    run_out_inside_no_sync(world, {}, before);
    run_out_inside_no_sync(world, {.gradient_as_bucket_view = true}, before);
    run_out_inside_no_sync(world, {.static_graph = true}, before);
  }
}

RANK_TEST(ReducerJoin, OneWithoutInputAtAllTakesPart) {
  ToyModel model;
  model.add("a", {10}).add("b", {10});
  std::vector<Parameter> parameters = model.parameters();
  GradientReducer reducer(world.group(), parameters, {.first_bucket_bytes = 1, .bucket_bytes = 1});
  ToyStep step(world, model, reducer);
  Join join({&reducer});
  const bool has_input = world.rank() + 1 == world.size();
  join.run([&] {
    for (int iteration = 0; has_input && iteration < 3; ++iteration) {
      step.backward(iteration, {0, 1});
      for (std::size_t i = 0; i < 2; ++i)
        step.expect(i, toy_average(world.size(), {world.rank()}, i, iteration), 1e-6);
    }
  });
  EXPECT_EQ(reducer.buckets(), (std::vector<std::vector<std::size_t>>{{0}, {1}}));
}

}  // namespace
}  // namespace hymn::test
