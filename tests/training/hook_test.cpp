// Hooks in place of the plain average.
#include <mutex>
#include <thread>

#include "hymn/gradient_hooks.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/spoilt.hpp"
#include "tests/training/quarters.hpp"
#include "training/bucket.hpp"

namespace hymn::test {
namespace {

using training::CommHook;
using training::GradBucket;
using training::GradientReducer;
using training::Parameter;
using training::ReducerOptions;

RANK_TEST(CommHooks, OfTheLibraryAverage) {
  expect_quarters(world, [] { return training::all_reduce_hook(); }, .25);
  expect_quarters(world, [] { return training::fp16_compress(); }, .25);
  for (const DataType dtype : {DataType::float64, DataType::float16, DataType::complex64})
    expect_quarters(world, [] { return training::fp16_compress(); }, .25, dtype);
}
RANK_TEST(CommHooks, test_builtin_ddp_comm_hooks_nccl_grad_is_view) {
  expect_quarters(world, [] { return CommHook(); }, .25);
}
RANK_TEST(CommHooks, test_bf16_compress_wrapper_is_view) {
  expect_quarters(world, [] { return training::bf16_compress(); }, .25);
  expect_quarters(world, [] { return training::bf16_compress(); }, .25, DataType::float64);
}
RANK_TEST(CommHooks, MayCallOthers) {
  expect_quarters(world, [] { return training::fp16_compress(training::bf16_compress()); }, .25);
}

// Sums over the ranks, divided by a hook of the user's own.
RANK_TEST(CommHooks, MaySumAndDivide) {
  const int ranks = world.size();
  const CommHook hook = [ranks](const GradBucket& bucket) {
    ProcessGroup group = bucket.group();
    return group.all_reduce_async(bucket.buffer(), ReduceOp::sum)
        .then([bucket, ranks](const std::vector<BufferView>&) {
          const BufferView all = bucket.buffer();
          auto* const values = static_cast<float*>(all.data);
          for (std::size_t i = 0; i < all.count; ++i) values[i] /= static_cast<float>(ranks);
          return all;
        });
  };
  expect_quarters(world, [&hook] { return hook; }, .25);
}

CommHook scale_by(float factor, CommHook hook) {
  return [factor, hook = std::move(hook)](const GradBucket& bucket) {
    return hook(bucket).then([factor, bucket](const BufferView& all) {
      auto* const values = static_cast<float*>(all.data);
      for (std::size_t i = 0; i < all.count; ++i) values[i] *= factor;
      return all;
    });
  };
}
RANK_TEST(CommHooks, test_ddp_comm_hook_allreduce_with_then_hook_nccl) {
  expect_quarters(
      world, [] { return scale_by(.5f, scale_by(10, training::all_reduce_hook())); }, 1.25);
}

// Nothing is reduced: the values are the hook's own, in memory of its own.
RANK_TEST(CommHooks, test_ddp_comm_hook_future_passing_gpu_nccl) {
  const auto kept = std::make_shared<std::vector<float>>(1000, 2.0f);
  const CommHook hook = [kept](const GradBucket& bucket) {
    const Promise<BufferView> promise;
    promise.set_value(BufferView(kept->data(), bucket.buffer().count, DataType::float32));
    return promise.get_future();
  };
  expect_quarters(world, [&hook] { return hook; }, 2);
}

RANK_TEST(CommHooks, AFutureMayComeFromAnotherThread) {
  std::vector<std::thread> threads;
  const CommHook hook = [&threads](const GradBucket& bucket) {
    const Promise<BufferView> promise;
    threads.emplace_back([promise, bucket] { promise.set_value(bucket.buffer()); });
    return promise.get_future();
  };
  expect_quarters(world, [&hook] { return hook; }, .25);
  for (std::thread& thread : threads) thread.join();
}

RANK_TEST(CommHooks, SeeWhatTheyReduce) {
  ToyModel model;
  model.add("a", {2, 3}).add("b", {4}).add("c", {25});
  int seen = 0;
  const CommHook hook = [&](const GradBucket& bucket) {
    EXPECT_EQ(bucket.index(), static_cast<std::size_t>(seen % 2));
    EXPECT_EQ(bucket.is_last(), seen % 2 == 1);
    EXPECT_EQ(bucket.parameters(),
              seen % 2 == 0 ? std::vector<std::size_t>{2} : (std::vector<std::size_t>{1, 0}));
    EXPECT_EQ(bucket.divisor(), world.size());
    EXPECT_EQ(bucket.group().size(), world.size());
    if (seen++ % 2 == 1) {
      EXPECT_EQ(bucket.buffer().count, 10u);
      const BufferView a = bucket.gradient(1);
      EXPECT_EQ(a.count, 6u);
      EXPECT_EQ(a.shape.size(), 2u);
      EXPECT_EQ(ToyModel::value_of(a), toy_gradient(world.rank(), 0, (seen - 1) / 2));
    }
    return training::all_reduce_hook()(bucket);
  };
  GradientReducer reducer(world.group(), model.parameters(),
                          {.first_bucket_bytes = 50, .hook = hook});
  ToyStep step(world, model, reducer);
  for (int iteration = 0; iteration < 3; ++iteration) {
    step.backward(iteration);
    step.expect_averages(iteration);
  }
  EXPECT_EQ(seen, 6);
}

RANK_TEST(CommHooks, CompressionRounds) {
  ToyModel model;
  model.add("w", {1000});
  struct Case {
    CommHook hook;
    float value;
    float rounded;
  };
  for (const Case& one : {Case{training::fp16_compress(), 1.0f / 3, 0.33325195f},
                          Case{training::bf16_compress(), 1.0f / 3, 0.33398438f},
                          Case{training::bf16_compress(), 3.0e30f, 2.99086e30f}}) {
    std::vector<Parameter> parameters = model.parameters();
    GradientReducer reducer(world.group(), parameters, {.hook = one.hook});
    ToyModel::fill(parameters[0].gradient, one.value);
    reducer.ready(0);
    reducer.finish();
    EXPECT_NEAR(ToyModel::value_of(parameters[0].gradient), one.rounded, one.rounded * 1e-4f);
  }
}

/// An iteration with this hook fails on all ranks, each of which tells its own failure, or that of
/// another one, which may have been quicker.
void expect_failure(World& world, const CommHook& hook, std::string_view words) {
  ToyModel model;
  model.add("w", {4});
  ProcessGroup group = fresh_group(world, "hooked");
  std::string text = "nothing";
  try {
    GradientReducer reducer(group, model.parameters(), {.hook = hook});
    reducer.ready(0);
    reducer.finish();
  } catch (const std::exception& error) {
    text = error.what();
  } catch (int number) {
    text = std::to_string(number);
  }
  EXPECT_NE(text.find(words), std::string::npos) << text;
  EXPECT_TRUE(group.is_aborted());
}

CommHook give(BufferView view) {
  return [view](const GradBucket&) {
    const Promise<BufferView> promise;
    promise.set_value(view);
    return promise.get_future();
  };
}

RANK_TEST(CommHooks, WrongResultsAreTold) {
  static std::vector<float> other(1000);
  const std::string of = " of bucket 0, which has 4 elements of float32";
  expect_failure(world, give(BufferView(other.data(), 3, DataType::float32)),
                 "a hook has made 3 elements of float32" + of);
  expect_failure(world, give(BufferView(other.data(), 4, DataType::float16)),
                 "a hook has made 4 elements of float16" + of);
  expect_failure(world, give(BufferView(nullptr, 4, DataType::float32)),
                 "a hook has made nothing" + of);
  // In place of halves, by a hook that another one calls.
  expect_failure(world,
                 training::fp16_compress(give(BufferView(other.data(), 4, DataType::float32))),
                 "which has 4 elements of float16");
}

RANK_TEST(CommHooks, ThoseThatComputeOnTheHostRefuseGpus) {
  float value = 0;
  const auto part = std::make_shared<training::detail::BucketPart>();
  part->buffer = BufferView(value);
  part->buffer.memory = MemoryKind::device;
  for (const CommHook& hook : {training::power_sgd(), training::bf16_compress()})
    expect_error(ErrorKind::unsupported, [&] { (void)hook(GradBucket(part)); },
                 {"computes in memory of the host, and gradients are on GPUs"});
}

RANK_TEST(CommHooks, WhatTheyThrowIsThrown) {
  expect_failure(
      world,
      [](const GradBucket&) -> Future<BufferView> {
        throw std::runtime_error("a hook of the test");
      },
      "a hook of the test");
  expect_failure(
      world, [](const GradBucket&) -> Future<BufferView> { throw 42; },
      world.size() == 1 ? "42" : "");
  expect_failure(
      world,
      [](const GradBucket&) {
        const Promise<BufferView> promise;
        promise.set_error(std::make_exception_ptr(std::runtime_error("a hook of the test")));
        return promise.get_future();
      },
      "a hook of the test");
  expect_failure(
      world, [](const GradBucket&) { return Promise<BufferView>().get_future(); }, "Promise");
}

// A promise that is kept by what a Work brings: nobody but the reducer moves that.
RANK_TEST(CommHooks, AFutureMayComeOfAWork) {
  const auto hook = [](const GradBucket& bucket) {
    const Promise<BufferView> promise;
    (void)bucket.average(bucket.buffer()).then([promise, bucket](const std::vector<BufferView>&) {
      promise.set_value(bucket.buffer());
    });
    return promise.get_future();
  };
  expect_quarters(world, [&hook] { return hook; }, .25);
}

RANK_TEST(CommHooks, KeepWhatTheyHave) {
  ToyModel model;
  model.add("w", {4});
  int last = 0;
  const auto hook = [&last, calls = 0](const GradBucket& bucket) mutable {
    last = ++calls;
    return training::all_reduce_hook()(bucket);
  };
  GradientReducer reducer(world.group(), model.parameters(), {.hook = hook});
  for (int iteration = 1; iteration <= 4; ++iteration) {
    reducer.ready(0);
    reducer.finish();
    EXPECT_EQ(last, iteration);
  }
}

// The others end, and are told which bucket's hook it was.
RANK_TEST(CommHooks, OneThatFailsOnOneRankEndsTheGroup) {
  NEEDS_RANKS(2);
  ToyModel model;
  model.add("w", {4});
  const bool fails = world.rank() == 1;
  const CommHook hook = [fails](const GradBucket& bucket) {
    if (fails) throw std::runtime_error("a hook of the test");
    return training::all_reduce_hook()(bucket);
  };
  ProcessGroup group = fresh_group(world, "hooked");
  const auto iterate = [&] {
    GradientReducer reducer(group, model.parameters(), {.hook = hook});
    reducer.ready(0);
    reducer.finish();
  };
  if (fails)
    EXPECT_THROW(iterate(), std::runtime_error);
  else
    expect_error(ErrorKind::aborted, iterate, {"the hook of bucket 0", "a hook of the test"});
}

// The work hooks of a group see each bucket's reduction.
RANK_TEST(CommHooks, test_on_completion_hook_with_ddp) {
  ProcessGroup group = fresh_group(world, "watched");
  ToyModel model;
  for (int i = 0; i < 4; ++i) model.add("layer", {1000});
  GradientReducer reducer(group, model.parameters(), {.first_bucket_bytes = 1, .bucket_bytes = 1});
  std::mutex mutex;
  std::vector<CompletionInfo> told;
  group.on_completion([&](const CompletionInfo& info) {
    const std::lock_guard lock(mutex);
    told.push_back(info);
  });
  ToyStep step(world, model, reducer, group);
  step.backward(0);
  group.wait_for_pending_works();
  ASSERT_EQ(told.size(), 4u);
  for (const CompletionInfo& info : told) {
    EXPECT_EQ(info.type, OpType::all_reduce);
    EXPECT_EQ(info.bytes, 4000u);
    EXPECT_TRUE(info.ok());
  }
}

}  // namespace
}  // namespace hymn::test
