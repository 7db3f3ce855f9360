// Hooks of DistributedDataParallel, as programs write them.
#include <stdexcept>

#include "tests/training/torch/small_net.hpp"
#include "tests/training/torch/torch_rank_test.hpp"

namespace hymn::test {
namespace {

using hymn::torch::CommHook;
using hymn::torch::DdpOptions;
using hymn::torch::DistributedDataParallel;
using hymn::torch::GradBucket;

/// One step with it: each gradient is `factor` times the average.
void expect_averages_times(World& world, double factor, const CommHook& hook,
                           double tolerance = 1e-5) {
  DdpOptions options;
  options.first_bucket_bytes = 1;  // several buckets
  options.bucket_bytes = 64;
  options.hook = hook;
  ::torch::nn::Sequential plain = small_net();
  DistributedDataParallel ddp(small_net(), world.group(), options);
  options.hook = {};  // the wrapper has it
  for (int step = 0; step < 3; ++step) {
    const at::Tensor input = some_input(world.rank(), step, {3, 4});
    ddp.module()->zero_grad();
    plain->zero_grad();
    ddp(input).sum().backward();
    plain->forward(input).sum().backward();
    const auto others = plain->named_parameters();
    for (const auto& item : ddp.module()->named_parameters())
      expect_close(item.value().grad(),
                   factor * average_of(world, others[item.key()].grad(), item.value()), item.key(),
                   tolerance);
  }
}

CommHook halving() {
  return {[](const GradBucket& bucket) {
            bucket.buffer().mul_(0.5);
            return bucket.average();
          },
          {}};
}

RANK_TEST(TorchCommHook, OnesThatThereAre) {
  expect_averages_times(world, 1, {});
  expect_averages_times(world, 1, CommHook::all_reduce());
  expect_averages_times(world, 1, CommHook::fp16_compress(), 0.01);
  expect_averages_times(world, 1, CommHook::bf16_compress(CommHook::all_reduce()), 0.05);
  hymnPowerSgdOptions_t options = HYMN_POWER_SGD_OPTIONS_INIT;
  options.start_iteration = 5;  // averages until then
  expect_averages_times(world, 1, CommHook::power_sgd(options));
  options.start_iteration = 1;
  expect_refused("start_iteration", [&] { CommHook::power_sgd(options); });
}

RANK_TEST(TorchCommHook, AHandleOfC) {
  hymnCommHook_t handle = nullptr;
  hymn::torch::check(hymnCommHookBf16Compress(nullptr, &handle));
  const hymn::torch::Owned<hymnCommHook_t> owner(handle, &hymnCommHookFree);
  expect_averages_times(world, 1, handle, 0.05);
}

RANK_TEST(TorchCommHook, AFunctionBeforeTheAverage) {
  expect_averages_times(world, 0.5, halving());
  expect_averages_times(world, 0.5, CommHook::bf16_compress(halving()), 0.05);
}

RANK_TEST(TorchCommHook, AFunctionWithACollectiveOfItsOwn) {
  const CommHook sum(
      [](const GradBucket& bucket) {
        return hymn::torch::all_reduce_async(bucket.buffer(), bucket.group());
      },
      [](const GradBucket& bucket) { bucket.buffer().div_(bucket.divisor()); });
  expect_averages_times(world, 1, sum);
  // On a copy, as the buffer is strided.
  const CommHook every_second([](const GradBucket& bucket) {
    const at::Tensor all = bucket.buffer();
    bucket.average().wait();
    return hymn::torch::all_reduce_async(all.slice(0, 0, all.numel(), 2), bucket.group(), hymnMax);
  });
  expect_averages_times(world, 1, every_second);
}

RANK_TEST(TorchCommHook, ABucketSaysWhatItIs) {
  std::vector<std::size_t> seen;
  DdpOptions options;
  options.hook = CommHook([&](const GradBucket& bucket) {
    const std::vector<std::size_t> parameters = bucket.parameters();
    seen.insert(seen.end(), parameters.begin(), parameters.end());
    EXPECT_EQ(bucket.index(), 0u);
    EXPECT_TRUE(bucket.is_last());
    EXPECT_EQ(bucket.divisor(), world.size());
    EXPECT_EQ(bucket.group().rank(), world.rank());
    EXPECT_EQ(bucket.buffer().numel(), 4 * 8 + 8 + 8 * 3 + 3);
    return bucket.average();
  });
  DistributedDataParallel ddp(small_net(), world.group(), options);
  ddp(some_input(world.rank(), 0, {3, 4})).sum().backward();
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, (std::vector<std::size_t>{0, 1, 2, 3}));
}

// As it was thrown, where it was thrown; the others hear that a hook has failed.
RANK_TEST(TorchCommHook, WhatAFunctionThrowsIsThrown) {
  NEEDS_RANKS(2);
  const hymn::ProcessGroup group = world.new_group(everybody(world));
  DdpOptions options;
  options.hook = CommHook([&](const GradBucket& bucket) {
    if (world.rank() == 1) throw std::out_of_range("no such thing");
    return bucket.average();
  });
  DistributedDataParallel ddp(small_net(), group, options);
  world.group().barrier();
  const auto step = [&] { ddp(some_input(world.rank(), 0, {3, 4})).sum().backward(); };
  if (world.rank() == 1)
    EXPECT_THROW(step(), std::out_of_range);
  else
    expect_refused("hook", step);
}

}  // namespace
}  // namespace hymn::test
