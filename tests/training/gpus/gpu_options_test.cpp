// What reducers offer, of models on GPUs.
#include "collectives/cuda/kernel_image.hpp"
#include "hymn/gradient_hooks.hpp"
#include "hymn/hymn_training.h"
#include "hymn/interop_c.hpp"
#include "tests/support/errors.hpp"
#include "tests/training/gpus/spread.hpp"

namespace hymn::test {
namespace {

using training::GradBucket;
using training::GradientReducer;
using training::Parameter;
using training::ReducerOptions;

class GpuOptions : public testing::TestWithParam<int> {
 protected:
  ToyModel model_of(const World& world, std::size_t layers) {
    ToyModel model;
    for (std::size_t i = 0; i < layers; ++i)
      model.in(toys.memory_of(toys.gpu(world, static_cast<int>(i) % toys.each())))
          .add("layer " + std::to_string(i), {10, 3});
    return model;
  }
  ReducerOptions small_buckets() const {
    return {.first_bucket_bytes = 100, .bucket_bytes = 200, .stream = toys.streams()};
  }
  void step(World& world, ToyStep& step, int iteration) {
    step.backward(iteration);
    toys.synchronize(world);
    step.expect_averages(iteration);
  }
  Spread toys{3, GetParam()};
};

TEST_P(GpuOptions, ValuesAndBuffersAreThoseOfTheFirstRank) {
  toys.run([this](World& world) {
    const int me = world.rank();
    ToyModel model = model_of(world, 4);
    ToyModel kept = model_of(world, 3);
    kept.in([](std::size_t bytes) {
      const auto memory = std::make_shared<std::vector<std::byte>>(bytes);
      return std::shared_ptr<std::byte>(memory, memory->data());
    });
    kept.add("of the host", {4});
    ReducerOptions options = small_buckets();
    for (const Parameter& each : kept.parameters()) options.buffers.push_back(each.data);
    for (const Parameter& each : model.parameters()) ToyModel::fill(each.data, 10 + me);
    for (const BufferView& each : options.buffers) ToyModel::fill(each, 20 + me);
    GradientReducer reducer(world.group(), model.parameters(), options);
    toys.synchronize(world);
    for (const Parameter& each : model.parameters()) EXPECT_EQ(ToyModel::value_of(each.data), 10);
    for (const BufferView& each : options.buffers) EXPECT_EQ(ToyModel::value_of(each), 20);
    ToyStep steps(world, model, reducer);
    for (int iteration = 0; iteration < 3; ++iteration) {
      for (const BufferView& each : options.buffers) ToyModel::fill(each, 30 + me + iteration);
      step(world, steps, iteration);
      for (const BufferView& each : options.buffers)
        EXPECT_EQ(ToyModel::value_of(each), 30 + iteration);
    }
  });
}

TEST_P(GpuOptions, WhatNobodyUsesKeepsItsGradient) {
  for (const bool is_view : {false, true})
    toys.run([&](World& world) {
      ToyModel model = model_of(world, 5);
      ReducerOptions options = small_buckets();
      options.gradient_as_bucket_view = is_view;
      options.find_unused_parameters = true;
      GradientReducer reducer(world.group(), model.parameters(), options);
      ToyStep steps(world, model, reducer);
      for (int iteration = 0; iteration < 3; ++iteration) {
        // Each rank uses one alone, and none the last.
        const std::vector<std::size_t> used = {static_cast<std::size_t>(world.rank()), 3};
        for (std::size_t i = 0; i < 5; ++i) ToyModel::fill(reducer.gradient(i), 7);
        reducer.prepare(used);
        steps.give(iteration, used);
        reducer.finish();
        toys.synchronize(world);
        for (std::size_t i = 0; i < 3; ++i)
          steps.expect(i, toy_average(3, {static_cast<int>(i)}, i, iteration), 1e-6);
        steps.expect(3, toy_average(3, 3, iteration), 1e-6);
        steps.expect(4, is_view ? 0 : 7);
        EXPECT_TRUE(reducer.is_unused(4));
      }
    });
}

TEST_P(GpuOptions, NoSyncAddsUp) {
  toys.run([this](World& world) {
    ToyModel model = model_of(world, 4);
    GradientReducer reducer(world.group(), model.parameters(), small_buckets());
    const auto give = [&](int iteration) {
      reducer.prepare();
      for (std::size_t i = 4; i-- > 0;) {
        model.accumulate(reducer.gradient(i), toy_gradient(world.rank(), i, iteration));
        reducer.ready(i);
      }
      reducer.finish();
      toys.synchronize(world);
    };
    {
      const auto held = reducer.no_sync();
      give(0);
      give(1);
    }
    give(2);
    for (std::size_t i = 0; i < 4; ++i)
      EXPECT_NEAR(ToyModel::value_of(reducer.gradient(i)),
                  toy_average(3, i, 0) + toy_average(3, i, 1) + toy_average(3, i, 2), 1e-3);
  });
}

TEST_P(GpuOptions, BucketsAreMadeAnew) {
  toys.run([this](World& world) {
    ToyModel model = model_of(world, 6);
    ReducerOptions options = small_buckets();
    options.gradient_as_bucket_view = true;
    GradientReducer reducer(world.group(), model.parameters(), options);
    ToyStep steps(world, model, reducer);
    steps.backward(0, {0, 1, 2, 3, 4, 5});
    toys.synchronize(world);
    steps.expect_averages(0);
    const auto before = reducer.buckets();
    reducer.prepare();
    toys.synchronize(world);
    steps.expect_averages(0);  // gradients have moved with their contents
    EXPECT_NE(reducer.buckets(), before);
    for (const auto& bucket : reducer.buckets())
      for (const std::size_t each : bucket)
        EXPECT_EQ(each % static_cast<std::size_t>(toys.each()),
                  bucket.front() % static_cast<std::size_t>(toys.each()));
    steps.give(1, {0, 1, 2, 3, 4, 5});
    reducer.finish();
    toys.synchronize(world);
    steps.expect_averages(1);
  });
}

// Rank r has r + 1 inputs.
TEST_P(GpuOptions, WhoRunsOutGivesNothing) {
  for (const JoinDivisor divisor : {JoinDivisor::initial, JoinDivisor::active})
    for (const bool is_view : {false, true})
      toys.run([&](World& world) {
        ToyModel model = model_of(world, 4);
        ReducerOptions options = small_buckets();
        options.gradient_as_bucket_view = is_view;
        GradientReducer reducer(world.group(), model.parameters(), options);
        ToyStep steps(world, model, reducer);
        Join join({&reducer}, {.divisor = divisor});
        join.run([&] {
          for (int iteration = 0; iteration <= world.rank(); ++iteration) {
            steps.backward(iteration);
            toys.synchronize(world);
            std::vector<int> active;
            for (int rank = iteration; rank < 3; ++rank) active.push_back(rank);
            const int ranks = divisor == JoinDivisor::active ? 3 - iteration : 3;
            for (std::size_t i = 0; i < 4; ++i)
              steps.expect(i, toy_average(ranks, active, i, iteration), 1e-6);
            for (const Parameter& each : model.parameters()) ToyModel::fill(each.data, iteration);
          }
        });
        toys.synchronize(world);
        for (const Parameter& each : model.parameters())
          EXPECT_EQ(ToyModel::value_of(each.data), 2);
      });
}

// A hook of the user's own, whose future is waited for on the host; and one that is there at once.
TEST_P(GpuOptions, HooksSeeBucketsOnGpus) {
  const auto summed = [](const GradBucket& bucket) {
    EXPECT_EQ(bucket.buffer().memory, MemoryKind::device);
    ProcessGroup group = bucket.group();
    return group.all_reduce_async(bucket.buffer(), ReduceOp::sum, {.stream = bucket.stream()})
        .then([bucket](const std::vector<BufferView>&) { return bucket.buffer(); });
  };
  const auto inner = [](const GradBucket& bucket) { return training::all_reduce_hook()(bucket); };
  for (const bool sums : {false, true})
    toys.run([&](World& world) {
      ToyModel model = model_of(world, 4);
      ReducerOptions options = small_buckets();
      options.hook = sums ? training::CommHook(summed) : training::CommHook(inner);
      GradientReducer reducer(world.group(), model.parameters(), options);
      ToyStep steps(world, model, reducer);
      for (int iteration = 0; iteration < 3; ++iteration) {
        steps.backward(iteration);
        toys.synchronize(world);
        for (std::size_t i = 0; i < 4; ++i)
          steps.expect(i, toy_average(sums ? 1 : 3, {0, 1, 2}, i, iteration), 1e-6);
      }
    });
}

TEST_P(GpuOptions, ANanIsToldWithItsParameter) {
  if (cuda::kernel_image().empty())
    GTEST_SKIP() << "hymn was built without nvcc: there are no kernels for GPUs";
  toys.run([this](World& world) {
    ProcessGroup group = world.new_group({0, 1, 2}, {.nan_check = true});
    ToyModel model = model_of(world, 4);
    {
      GradientReducer reducer(group, model.parameters(), {.stream = toys.streams()});
      ToyStep steps(world, model, reducer, group);
      step(world, steps, 0);
      world.group().barrier();
      const bool is_first = world.rank() == 0;
      if (is_first) ToyModel::fill(reducer.gradient(3).slice(20, 1), std::nan(""));
      // The others hear of it in one of their next iterations.
      const auto iterate = [&] {
        for (int i = 0; i < 10'000; ++i) {
          reducer.prepare();
          for (std::size_t p = 4; p-- > 0;) reducer.ready(p);
          reducer.finish();
        }
      };
      expect_error(is_first ? ErrorKind::usage : ErrorKind::aborted, iterate,
                   {"element 20 of the gradient of parameter 3 (layer 3) is a NaN"});
    }
    toys.synchronize(world);  // what was under way writes to the model
  });
}

TEST_P(GpuOptions, WithoutNcclTheyAreStaged) {
  toys.run([this](World& world) {
    ProcessGroup group = world.new_group({0, 1, 2}, {.path = "^nccl"});
    ToyModel model = model_of(world, 4);
    GradientReducer reducer(group, model.parameters(), small_buckets());
    ToyStep steps(world, model, reducer, group);
    for (int iteration = 0; iteration < 3; ++iteration) step(world, steps, iteration);
  });
  EXPECT_EQ(toys.gpus.count("all_reduce"), 0);
}

TEST_P(GpuOptions, InAnEagerWorld) {
  Config config;
  config.nccl.init = NcclInit::eager;
  toys.run(
      [this](World& world) {
        ToyModel model = model_of(world, 4);
        GradientReducer reducer(world.group(), model.parameters(), small_buckets());
        ToyStep steps(world, model, reducer);
        for (int iteration = 0; iteration < 3; ++iteration) step(world, steps, iteration);
      },
      {}, config);
}

TEST_P(GpuOptions, GroupsOfSome) {
  toys.run([this](World& world) {
    ProcessGroup group = world.new_group({0, 2});
    if (!group.is_member()) return;
    ToyModel model = model_of(world, 4);
    GradientReducer reducer(group, model.parameters(), small_buckets());
    ToyStep steps(world, model, reducer, group);
    for (int iteration = 0; iteration < 3; ++iteration) step(world, steps, iteration);
  });
}

void* stream_for_c(int gpu, void* spread) { return static_cast<Spread*>(spread)->stream(gpu); }

TEST_P(GpuOptions, InC) {
  toys.run([this](World& world) {
    ToyModel model = model_of(world, 2);
    std::vector<hymnParameter_t> parameters;
    for (const Parameter& each : model.parameters()) {
      hymnParameter_t& made = parameters.emplace_back();
      made = HYMN_PARAMETER_INIT;
      made.data = each.data.data;
      made.gradient = each.gradient.data;
      made.shape = each.data.shape.data();
      made.dimensions = each.data.shape.size();
    }
    hymnReducerOptions_t options = HYMN_REDUCER_OPTIONS_INIT;
    options.stream = stream_for_c;
    options.stream_user = &toys;
    hymnGroup_t group = handle_of(world.group());
    hymnGradientReducer_t reducer = nullptr;
    ASSERT_EQ(hymnGradientReducerCreate(group, parameters.data(), 2, &options, &reducer),
              hymnSuccess)
        << hymnGetLastError();
    for (std::size_t i = 2; i-- > 0;) {
      ToyModel::fill(model.parameters()[i].gradient, toy_gradient(world.rank(), i, 0));
      EXPECT_EQ(hymnGradientReducerReady(reducer, i, nullptr), hymnSuccess);
    }
    EXPECT_EQ(hymnGradientReducerFinish(reducer), hymnSuccess) << hymnGetLastError();
    toys.synchronize(world);
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_EQ(ToyModel::value_of(model.parameters()[i].gradient), toy_average(3, i, 0));
    EXPECT_EQ(hymnGradientReducerFree(reducer), hymnSuccess);
    EXPECT_EQ(hymnGroupFree(group), hymnSuccess);
  });
}

INSTANTIATE_TEST_SUITE_P(GpusOfARank, GpuOptions, testing::Values(1, 2));

}  // namespace
}  // namespace hymn::test
