// What DistributedDataParallel refuses, and in which words.
#include <stdexcept>

#include "tests/training/torch/small_net.hpp"
#include "tests/training/torch/torch_rank_test.hpp"
#include "tests/training/torch/toy_modules.hpp"

namespace hymn::test {
namespace {

using namespace toy;  // NOLINT: the modules
namespace nn = ::torch::nn;
using hymn::torch::DistributedDataParallel;

RANK_TEST(TorchDdp, test_nccl_backend_multi_device_ids_not_allowed) {
  const at::Device cpu(at::kCPU);
  expect_refused("device_ids can only be None or contain a single element.", [&] {
    DistributedDataParallel ddp(small_net(), world.group(), {.device_ids = {cpu, cpu}});
  });
}

// Without a GPU `meta` is the other type of device.
RANK_TEST(TorchDdp, test_ddp_multi_device_module_config) {
  const at::Device cpu(at::kCPU);
  const char* const one_device =
      "DistributedDataParallel device_ids and output_device arguments only work with "
      "single-device/multiple-device GPU modules or CPU modules";
  expect_refused(one_device, [&] {
    DistributedDataParallel ddp(small_net(), world.group(), {.output_device = cpu});
  });
  expect_refused(one_device, [&] {
    DistributedDataParallel ddp(small_net(), world.group(), {.device_ids = {cpu}});
  });
  const auto mixed = std::make_shared<nn::Module>();
  mixed->register_parameter("here", at::ones({2}));
  mixed->register_parameter("there", at::ones({2}, at::Device("meta")));
  expect_refused("input module must be on the same type of devices",
                 [&] { DistributedDataParallel ddp(mixed, world.group()); });
}

/// Steps that leave out one net: told in the next one, by its parameters' names, unless they are
/// looked for.
void leave_out_a_net(World& world, bool is_view, bool finds) {
  const hymn::ProcessGroup group = world.new_group(everybody(world));
  DistributedDataParallel ddp(
      same_on_all_ranks(Either()), group,
      {.gradient_as_bucket_view = is_view, .find_unused_parameters = finds});
  const auto step = [&](int i) { ddp(some_input(world.rank(), i, {4, 2}), true).sum().backward(); };
  world.group().barrier();  // what is given up below must not reach who makes it yet
  if (finds) {
    step(0);
    step(1);
    EXPECT_FALSE(ddp.module()->right->parameters()[0].grad().defined());
    return;
  }
  // All ranks have left it out: each says so itself, or hears it from another.
  expect_refused("right.0.weight", [&] {
    step(0);
    step(1);
  });
}

// What the program has called, and no function of C.
RANK_TEST(TorchDdp, ErrorsNameWhatWasCalled) {
  const hymn::ProcessGroup group = world.new_group(everybody(world));
  DistributedDataParallel ddp(same_on_all_ranks(Either()), group);
  world.group().barrier();
  ddp(some_input(world.rank(), 0, {4, 2}), true).sum().backward();
  try {
    ddp.require_finished();
    ADD_FAILURE() << "half of the net has no gradients";
  } catch (const hymn::Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("require_finished()"), std::string::npos) << text;
    EXPECT_EQ(text.find("hymnGrad"), std::string::npos) << text;
    EXPECT_EQ(text.find("GradientReducer"), std::string::npos) << text;
  }
}
void find_unused_parameters(World& world, bool is_view) {
  leave_out_a_net(world, is_view, true);
  leave_out_a_net(world, is_view, false);
}
// Names are told at every level of checks.
void find_unused_parameters_at(CheckLevel level, bool is_view) {
  on_ranks([is_view](World& world) { find_unused_parameters(world, is_view); }, {.checks = level});
}
TEST(TorchDdp, test_find_unused_parameters_kwarg_debug_detail) {
  find_unused_parameters_at(CheckLevel::detail, false);
}
TEST(TorchDdp, test_find_unused_parameters_kwarg_debug_info) {
  find_unused_parameters_at(CheckLevel::info, false);
}
TEST(TorchDdp, test_find_unused_parameters_kwarg_debug_off) {
  find_unused_parameters_at(CheckLevel::off, false);
}
TEST(TorchDdp, test_find_unused_parameters_kwarg_grad_is_view_debug_detail) {
  find_unused_parameters_at(CheckLevel::detail, true);
}
TEST(TorchDdp, test_find_unused_parameters_kwarg_grad_is_view_debug_info) {
  find_unused_parameters_at(CheckLevel::info, true);
}
TEST(TorchDdp, test_find_unused_parameters_kwarg_grad_is_view_debug_off) {
  find_unused_parameters_at(CheckLevel::off, true);
}

// What only one rank finds wrong all are told.
RANK_TEST(TorchDdp, OneRankThatCannotTakePartIsTold) {
  NEEDS_RANKS(2);
  nn::Sequential net = small_net();
  if (world.rank() == 1)
    for (at::Tensor& each : net->parameters()) each.requires_grad_(false);
  expect_refused(world.rank() == 1 ? "not needed" : "rank 1 cannot take part",
                 [&] { DistributedDataParallel ddp(net, world.group()); });
  nn::Sequential odd = small_net();
  odd->register_buffer("odd", at::ones({1}).expand({4096}));
  expect_refused("odd", [&] { DistributedDataParallel ddp(odd, world.group()); });
  // The group goes on.
  DistributedDataParallel ddp(small_net(), world.group());
  ddp(some_input(world.rank(), 0, {3, 4})).sum().backward();
  expect_same_on_all_ranks(world, ddp.module()->parameters()[0].grad(), "a gradient");
}

// The pass has reduced, and what it has reduced must not come to the next one.
RANK_TEST(TorchDdp, APassThatThrowsIsTold) {
  const hymn::ProcessGroup group = world.new_group(everybody(world));
  DistributedDataParallel ddp(small_net(), group);
  world.group().barrier();
  at::Tensor input = some_input(world.rank(), 0, {3, 4}).requires_grad_();
  const bool is_first = world.rank() == 0;
  if (is_first) input = Boom::apply(input);
  const auto pass = [&] { ddp(input).sum().backward(); };
  if (is_first)
    EXPECT_THROW(pass(), std::logic_error);
  else
    pass();
  world.group().barrier();
  if (is_first) {
    expect_refused("ended by an exception", pass);
  } else {
    expect_refused("ended by an exception",
                   [&] { ddp(some_input(world.rank(), 1, {3, 4})).sum().backward(); });
  }
}

RANK_TEST(TorchDdp, TensorsThatShareMemoryAreRefused) {
  const auto net = std::make_shared<nn::Module>();
  const at::Tensor first = net->register_parameter("first", at::ones({3}));
  net->register_parameter("second", first.detach());
  expect_refused("first and second", [&] { DistributedDataParallel ddp(net, world.group()); });
}

RANK_TEST(TorchDdp, WhatABodyThrowsIsThrown) {
  const hymn::ProcessGroup group = world.new_group(everybody(world));
  // The others hear of it wherever they are.
  try {
    DistributedDataParallel ddp(small_net(), group);
    hymn::torch::join(ddp, [] { throw std::out_of_range("no input"); });
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::out_of_range& error) {
    EXPECT_STREQ(error.what(), "no input");
  } catch (const hymn::torch::Error& error) {
    EXPECT_EQ(error.code(), hymnAbortedError) << error.what();
  }
}

RANK_TEST(TorchDdp, OtherModelsAreRefused) {
  NEEDS_RANKS(2);
  expect_refused("appears not to match", [&] {
    DistributedDataParallel ddp(nn::Linear(3 + world.rank() % 2, 2), world.group());
  });
  expect_refused("not needed", [&] {
    nn::Linear frozen(2, 2);
    for (at::Tensor& each : frozen->parameters()) each.requires_grad_(false);
    DistributedDataParallel ddp(frozen, world.group());
  });
}

RANK_TEST(TorchDdp, ModulesThatMoveAreRefusedByName) {
  enum class Moved { parameter, buffer, type };
  for (const Moved moved : {Moved::parameter, Moved::buffer, Moved::type}) {
    const hymn::ProcessGroup group = world.new_group(everybody(world));
    const nn::BatchNorm1d norm(6);
    nn::Sequential net(nn::Linear(4, 6), norm);
    DistributedDataParallel ddp(net, group);
    world.group().barrier();
    switch (moved) {
      case Moved::parameter:
        norm->weight.set_data(at::ones({6}));
        break;
      case Moved::buffer:
        norm->running_mean.set_data(norm->running_mean.clone());
        break;
      case Moved::type:
        net->to(at::kDouble);
        net->to(at::kFloat);
        break;
    }
    const char* const names[] = {"1.weight", "1.running_mean", "0.weight"};
    expect_refused(names[static_cast<int>(moved)],
                   [&] { ddp(some_input(world.rank(), 0, {5, 4})).sum().backward(); });
  }
}

// One that was not announced: of a module's own kind.
RANK_TEST(TorchDdp, OtherSparseGradientsAreRefusedByName) {
  const hymn::ProcessGroup group = world.new_group(everybody(world));
  DistributedDataParallel ddp(Picker(), group);
  world.group().barrier();
  expect_refused("table", [&] { ddp(at::tensor({1, 2}, at::kLong)).sum().backward(); });
}

}  // namespace
}  // namespace hymn::test
