// What a reducer refuses of models on GPUs, and what becomes of the others where one rank fails.
#include "hymn/gradient_hooks.hpp"
#include "tests/support/errors.hpp"
#include "tests/training/gpus/spread.hpp"

namespace hymn::test {
namespace {

using training::GradientReducer;
using training::Parameter;
using training::ReducerOptions;

class GpuRefusal : public testing::Test {
 protected:
  /// Layers on these of the rank's GPUs; -1: in memory of the host.
  ToyModel model_on(const World& world, const std::vector<int>& places) {
    ToyModel model;
    for (const int k : places) {
      ToyModel& next = k < 0 ? model : model.in(toys.memory_of(toys.gpu(world, k)));
      next.add("layer", {10, 2});
    }
    return model;
  }
  void refuses(World& world, ToyModel& model, ErrorKind kind, Words words,
               const ReducerOptions& options = {}) {
    expect_error(
        kind, [&] { GradientReducer reducer(world.group(), model.parameters(), options); }, words);
  }
  Spread toys{2, 2};
};

TEST_F(GpuRefusal, AllOnGpusOrNone) {
  toys.run([this](World& world) {
    ToyModel model = model_on(world, {-1, 0});
    refuses(world, model, ErrorKind::usage,
            {"must be on the same type of devices", "parameter 0 (layer) is in memory of the host",
             "parameter 1 (layer) on GPU"});
    world.group().barrier();
  });
}

// One rank has its model elsewhere: all hear it.
TEST_F(GpuRefusal, RanksPutTheSameOntoGpus) {
  toys.run([this](World& world) {
    const bool is_first = world.rank() == 0;
    ToyModel other_gpus = model_on(world, {0, 1, is_first ? 0 : 1});
    refuses(world, other_gpus, ErrorKind::usage,
            {"parameter 2", "of the same param in process 0", "on GPU #0 of its model",
             "on GPU #1 of its model"});
    ToyModel more_gpus = model_on(world, {0, is_first ? 0 : 1});
    refuses(world, more_gpus, ErrorKind::usage, {"parameter 1", "on GPU #1 of its model"});
    ToyModel host = model_on(world, {is_first ? -1 : 0});
    refuses(world, host, ErrorKind::usage, {"parameter 0", "on GPU #0 of its model"});
    // Which GPU it is may differ.
    ToyModel same = model_on(world, {is_first ? 0 : 1, is_first ? 1 : 0});
    GradientReducer reducer(world.group(), same.parameters(), {.stream = toys.streams()});
    ToyStep step(world, same, reducer);
    step.backward(0);
    toys.synchronize(world);
    step.expect_averages(0);
  });
}

TEST_F(GpuRefusal, GradientsAreWhereValuesAre) {
  toys.run([this](World& world) {
    ToyModel model = model_on(world, {0, 1});
    std::vector<Parameter> parameters = model.parameters();
    std::swap(parameters[0].gradient, parameters[1].gradient);
    expect_error(ErrorKind::usage, [&] { GradientReducer reducer(world.group(), parameters); },
                 {"the gradient of parameter 0 (layer) is on GPU", "and its values on GPU"});
    parameters = model.parameters();
    parameters[1].data.data = &model;
    parameters[1].data.memory = MemoryKind::device;
    expect_error(ErrorKind::usage, [&] { GradientReducer reducer(world.group(), parameters); },
                 {"parameter 1 (layer) is said to be in device memory", "no allocation"});
    world.group().barrier();
  });
}

TEST_F(GpuRefusal, StreamsOfOtherGpus) {
  toys.run([this](World& world) {
    ToyModel model = model_on(world, {0});
    ProcessGroup group = world.new_group({0, 1});
    expect_error(ErrorKind::usage,
                 [&] {
                   GradientReducer reducer(group, model.parameters(), {.stream = [&](int gpu) {
                                             return toys.stream(gpu ^ 1);
                                           }});
                 },
                 {"the stream does not belong to GPU"});
    world.group().barrier();
  });
}

TEST_F(GpuRefusal, WhatComputesOnTheHost) {
  toys.run([this](World& world) {
    ToyModel model = model_on(world, {0});
    refuses(world, model, ErrorKind::unsupported, {"fp16_compress", "gradients are on GPUs"},
            {.hook = training::fp16_compress()});
    refuses(world, model, ErrorKind::unsupported, {"bf16_compress"},
            {.hook = training::bf16_compress()});
    std::vector<Parameter> parameters = model.parameters();
    parameters[0].sparse_dims = 1;
    expect_error(ErrorKind::unsupported,
                 [&] { GradientReducer reducer(world.group(), parameters); },
                 {"parameter 0 (layer)", "where gradients are not sparse"});
    world.group().barrier();
  });
}

// Hidden in another one, it is found out when it is called.
TEST_F(GpuRefusal, HooksThatCallSuchHooks) {
  toys.run([this](World& world) {
    ToyModel model = model_on(world, {1});
    ProcessGroup group = world.new_group({0, 1});
    GradientReducer reducer(
        group, model.parameters(),
        {.hook = [inner = training::bf16_compress()](
                     const training::GradBucket& bucket) { return inner(bucket); },
         .stream = toys.streams()});
    world.group().barrier();
    expect_error(ErrorKind::unsupported, [&] { reducer.ready(0); }, {"bf16_compress"});
    EXPECT_TRUE(group.is_aborted());
    world.group().barrier();
  });
}

// The others wait on a group of the second GPU, which is given up with the first.
TEST_F(GpuRefusal, AGradientThatIsNeverReadyEndsAllGroups) {
  for (const std::size_t forgotten : {std::size_t{0}, std::size_t{2}})
    toys.run([&](World& world) {
      const bool forgets = world.rank() == 0;
      ToyModel model = model_on(world, {0, 1, 0});
      ProcessGroup group = world.new_group({0, 1}, {.description = "unready"});
      GradientReducer reducer(group, model.parameters(),
                              {.first_bucket_bytes = 1, .stream = toys.streams()});
      ToyStep step(world, model, reducer, group);
      step.backward(0);
      toys.synchronize(world);
      step.expect_averages(0);
      // On a stream nobody waits on the host: it is told of in the iterations after.
      const auto iterate = [&] {
        for (int i = 0; i < 10'000; ++i) {
          reducer.prepare();
          for (std::size_t p = 3; p-- > 0;)
            if (!forgets || p != forgotten) reducer.ready(p);
          reducer.finish();
        }
      };
      expect_error(forgets ? ErrorKind::usage : ErrorKind::aborted, iterate,
                   {"parameter " + std::to_string(forgotten) + " (layer) is not ready"});
      EXPECT_TRUE(group.is_aborted());
    });
  EXPECT_EQ(toys.gpus.open_allocations(), 0);
}

// Who waits for a stream by the driver's means hears nothing; the progress thread does.
TEST_F(GpuRefusal, TheProgressThreadFreesStreams) {
  toys.run(
      [&](World& world) {
        ToyModel model = model_on(world, {0, 1, 0});
        ProcessGroup group = world.new_group({0, 1}, {.description = "left"});
        GradientReducer reducer(group, model.parameters(),
                                {.first_bucket_bytes = 1, .stream = toys.streams()});
        ToyStep step(world, model, reducer, group);
        step.backward(0);
        toys.synchronize(world);
        world.group().barrier();
        if (world.rank() == 0)
          group.abort("for the test");
        else
          error_text([&] { step.backward(1); });
        toys.synchronize(world);
      },
      {.progress_thread = true});
  EXPECT_EQ(toys.gpus.open_allocations(), 0);
}

TEST_F(GpuRefusal, AfterAFailureThereIsANewReducer) {
  toys.run([&](World& world) {
    ToyModel model = model_on(world, {0, 1, 1, 0});
    {
      ProcessGroup group = world.new_group({0, 1}, {.description = "fails"});
      GradientReducer reducer(group, model.parameters(), {.stream = toys.streams()});
      ToyStep step(world, model, reducer, group);
      step.backward(0);
      toys.synchronize(world);
      step.expect_averages(0);
      world.group().barrier();
      group.abort("for the test");
      expect_error(ErrorKind::aborted, [&] {
        for (int i = 0; i < 10'000; ++i) step.backward(1);
      });
    }
    GradientReducer reducer(world.group(), model.parameters(), {.stream = toys.streams()});
    ToyStep step(world, model, reducer);
    for (int iteration = 1; iteration < 3; ++iteration) {
      step.backward(iteration);
      toys.synchronize(world);
      step.expect_averages(iteration);
    }
  });
  EXPECT_EQ(toys.gpus.open_allocations(), 0);
}

}  // namespace
}  // namespace hymn::test
