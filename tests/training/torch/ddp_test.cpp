// What DistributedDataParallel averages, and when.
#include "tests/training/torch/small_net.hpp"
#include "tests/training/torch/torch_rank_test.hpp"
#include "tests/training/torch/toy_modules.hpp"

namespace hymn::test {
namespace {

using namespace toy;  // NOLINT: the modules
namespace nn = ::torch::nn;
using hymn::torch::DdpOptions;
using hymn::torch::DistributedDataParallel;

/// The gradients of an equal module without a wrapper, averaged over the ranks.
template <class Module>
void expect_averages(World& world, Module wrapped, Module plain, const char* when) {
  const auto mine = wrapped->named_parameters();
  const auto other = plain->named_parameters();
  for (const auto& item : mine) {
    const at::Tensor average = average_of(world, other[item.key()].grad(), item.value());
    expect_close(item.value().grad(), average, item.key() + ' ' + when);
    expect_same_on_all_ranks(world, item.value().grad(), item.key());
  }
}

void train_beside_plain(World& world, DdpOptions options) {
  nn::Sequential plain = small_net();
  DistributedDataParallel ddp(small_net(), world.group(), std::move(options));
  ::torch::optim::SGD optimizer(ddp.module()->parameters(), 0.1);
  for (int step = 0; step < 4; ++step) {
    const at::Tensor input = some_input(world.rank(), step, {3, 4});
    plain->zero_grad();
    optimizer.zero_grad();
    plain->forward(input).pow(2).sum().backward();
    ddp(input).pow(2).sum().backward();
    expect_averages(world, ddp.module(), plain, "after a step");
    optimizer.step();
    const c10::NoGradGuard no_grad;
    for (std::size_t i = 0; i < plain->parameters().size(); ++i)
      plain->parameters()[i].copy_(ddp.module()->parameters()[i]);
  }
}

RANK_TEST(TorchDdp, test_nccl_backend_single_device_module_device_ids_None) {
  train_beside_plain(world, {});
}
RANK_TEST(TorchDdp, test_nccl_backend_single_device_module_empty_device_ids) {
  train_beside_plain(world, {.device_ids = std::vector<at::Device>{}});
}
RANK_TEST(TorchDdp, TrainsAsAPlainModule) {
  for (const bool is_view : {false, true})
    for (const bool finds : {false, true})
      for (const bool is_static : {false, true})
        for (const std::size_t bytes : {std::size_t{1}, std::size_t{1} << 20})
          train_beside_plain(world, {.first_bucket_bytes = bytes,
                                     .bucket_bytes = bytes,
                                     .gradient_as_bucket_view = is_view,
                                     .find_unused_parameters = finds,
                                     .static_graph = is_static});
}

void take_any_output(World& world, bool is_view) {
  DistributedDataParallel ddp(same_on_all_ranks(Returns()), world.group(),
                              {.gradient_as_bucket_view = is_view, .find_unused_parameters = true});
  Returns plain = same_on_all_ranks(Returns());
  for (int step = 0; step < 3; ++step) {
    const at::Tensor input = some_input(world.rank(), step, {2, 2});
    const auto sum = [](const auto& out) {
      return std::get<0>(out).sum() + std::get<1>(out)[0].sum() +
             std::get<2>(out).at("third").sum();
    };
    ddp.module()->zero_grad();
    plain->zero_grad();
    sum(ddp(input)).backward();
    sum(plain->forward(input)).backward();
    expect_averages(world, ddp.module(), plain, "of any output");
  }
}
RANK_TEST(TorchDdp, test_arbitrary_forward_return_value) { take_any_output(world, false); }
RANK_TEST(TorchDdp, test_arbitrary_forward_return_value_grad_is_view) {
  take_any_output(world, true);
}

void make_two_backward_passes(World& world, bool is_view) {
  DistributedDataParallel ddp(same_on_all_ranks(Branches()), world.group(),
                              {.gradient_as_bucket_view = is_view});
  Branches plain = same_on_all_ranks(Branches());
  const auto step = [](const std::pair<at::Tensor, at::Tensor>& out) {
    out.first.pow(2).sum().backward();
    out.second.pow(3).sum().backward();
  };
  for (int i = 0; i < 3; ++i) {
    const at::Tensor input = some_input(world.rank(), i, {4, 2});
    ddp.module()->zero_grad();
    plain->zero_grad();
    step(ddp(input));
    step(plain->forward(input));
    expect_averages(world, ddp.module(), plain, "after two passes");
  }
}
RANK_TEST(TorchDdp, test_multiple_outputs_multiple_backward) {
  make_two_backward_passes(world, false);
}
RANK_TEST(TorchDdp, test_multiple_outputs_multiple_backward_grad_is_view) {
  make_two_backward_passes(world, true);
}

// The gradient of a gradient: the first one, which autograd hands out, is no parameter's.
RANK_TEST(TorchDdp, PenaltiesOfGradients) {
  nn::Sequential plain = small_net();
  DistributedDataParallel ddp(small_net(), world.group());
  const auto step = [&](auto&& forward) {
    at::Tensor input = some_input(world.rank(), 1, {3, 4}).requires_grad_();
    const at::Tensor loss = forward(input).pow(2).sum();
    const at::Tensor slope = ::torch::autograd::grad({loss}, {input}, {}, true, true)[0];
    (loss + slope.pow(2).sum()).backward();
  };
  step([&](const at::Tensor& x) { return plain->forward(x); });
  step([&](const at::Tensor& x) { return ddp(x); });
  expect_averages(world, ddp.module(), plain, "with a penalty");
}

RANK_TEST(TorchDdp, ForwardsWithoutGradientsLeaveThemUnset) {
  DistributedDataParallel ddp(small_net(), world.group());
  const c10::NoGradGuard no_grad;
  for (int step = 0; step < 2; ++step)
    EXPECT_FALSE(ddp(some_input(world.rank(), step, {3, 4})).requires_grad());
  for (const at::Tensor& each : ddp.module()->parameters()) EXPECT_FALSE(each.grad().defined());
}

// As when a model is looked at between steps.
RANK_TEST(TorchDdp, ForwardsWithoutBackwardsAreNoSteps) {
  nn::Sequential plain = small_net();
  DistributedDataParallel ddp(small_net(), world.group(), {.find_unused_parameters = true});
  for (int step = 0; step < 3; ++step) ddp(some_input(world.rank(), step, {3, 4}));
  ddp(some_input(world.rank(), 3, {3, 4})).sum().backward();
  plain->forward(some_input(world.rank(), 3, {3, 4})).sum().backward();
  expect_averages(world, ddp.module(), plain, "after four forwards");
}

RANK_TEST(TorchDdp, test_ddp_weight_sharing) {
  const int ranks = world.size();
  for (const bool is_view : {false, true})
    for (const bool to_none : {false, true}) {
      DistributedDataParallel ddp(Shared(), world.group(), {.gradient_as_bucket_view = is_view});
      for (int step = 0; step < 3; ++step) {
        for (at::Tensor& each : ddp.module()->parameters())
          if (to_none)
            each.mutable_grad().reset();
          else if (each.grad().defined())
            each.mutable_grad().zero_();
        ddp(at::full({}, world.rank() + 1.0)).sum().backward();
        const double average = 2.0 * ranks * (ranks + 1) / 2 / ranks;
        EXPECT_TRUE(at::allclose(ddp.module()->one.grad(), at::full({100}, average)));
      }
    }
}

// Gradients lie as their parameters do, however those lie.
RANK_TEST(TorchDdp, test_grad_layout_1devicemodule_1replicaperprocess) {
  using at::MemoryFormat;
  const std::vector<std::vector<MemoryFormat>> layouts = {
      std::vector(4, MemoryFormat::Contiguous),
      {MemoryFormat::Contiguous, MemoryFormat::ChannelsLast, MemoryFormat::ChannelsLast,
       MemoryFormat::Contiguous},
      std::vector(4, MemoryFormat::ChannelsLast)};
  for (const std::size_t bytes : {std::size_t{2'500}, std::size_t{1} << 20})
    for (const auto& formats : layouts)
      for (const bool is_view : {false, true}) {
        ConvNet plain = same_on_all_ranks(ConvNet(formats));
        DistributedDataParallel ddp(same_on_all_ranks(ConvNet(formats)), world.group(),
                                    {.first_bucket_bytes = bytes,
                                     .bucket_bytes = bytes,
                                     .gradient_as_bucket_view = is_view});
        for (int step = 0; step < 2; ++step) {
          at::Tensor input = some_input(world.rank(), step, {2, 8, 7, 7});
          ddp.module()->zero_grad();
          plain->zero_grad();
          ddp(input).pow(2).sum().backward();
          plain->forward(input).pow(2).sum().backward();
          expect_averages(world, ddp.module(), plain, "of convolutions");
          for (const at::Tensor& each : ddp.module()->parameters())
            EXPECT_EQ(each.strides(), each.grad().strides());
        }
      }
}

/// One pass of three with each of the nets; only the last pass reduces.
template <class Module, class Forward>
void add_up(World& world, DdpOptions options, Forward forward) {
  Module plain = same_on_all_ranks(Module());
  DistributedDataParallel ddp(same_on_all_ranks(Module()), world.group(), std::move(options));
  for (int round = 0; round < 3; ++round) {
    ddp.module()->zero_grad();
    plain->zero_grad();
    for (int i = 0; i < 3; ++i) {
      const at::Tensor input = some_input(world.rank(), 3 * round + i, {4, 2});
      forward(*plain, input, i).backward();
      if (i == 2) {
        forward(ddp, input, i).backward();
      } else {
        const auto held = ddp.no_sync();
        forward(ddp, input, i).backward();
      }
    }
    expect_averages(world, ddp.module(), plain, "of three passes");
  }
}

RANK_TEST(TorchDdp, NoSyncAddsUp) {
  for (const bool is_view : {false, true}) {
    add_up<Branches>(world, {.gradient_as_bucket_view = is_view},
                     [](auto& module, const at::Tensor& input, int) {
                       const auto [left, right] = module.forward(input);
                       return left.pow(2).sum() + right.pow(3).sum();
                     });
    // What took part only before is reduced, too.
    add_up<Either>(world, {.gradient_as_bucket_view = is_view, .find_unused_parameters = true},
                   [](auto& module, const at::Tensor& input, int i) {
                     return module.forward(input, i == 0).pow(2).sum();
                   });
  }
}

RANK_TEST(TorchDdp, RanksUseOtherParameters) {
  for (const bool is_view : {false, true}) {
    Either plain = same_on_all_ranks(Either());
    DistributedDataParallel ddp(
        same_on_all_ranks(Either()), world.group(),
        {.gradient_as_bucket_view = is_view, .find_unused_parameters = true});
    for (int i = 0; i < 4; ++i) {
      const at::Tensor input = some_input(world.rank(), i, {4, 2});
      const bool is_left = (world.rank() + i) % 2 == 0;
      for (at::Tensor& each : ddp.module()->parameters()) each.mutable_grad().reset();
      for (at::Tensor& each : plain->parameters()) each.mutable_grad().reset();
      ddp(input, is_left).pow(2).sum().backward();
      plain->forward(input, is_left).pow(2).sum().backward();
      if (world.size() > 1) {
        expect_averages(world, ddp.module(), plain, "of other nets");
      } else {
        EXPECT_EQ(ddp.module()->left->parameters()[0].grad().defined(), is_left);
      }
    }
  }
}

// Without zero_grad(): what has no part in an iteration counts with what it has from before.
RANK_TEST(TorchDdp, GradientsFromBeforeCount) {
  for (const bool is_view : {false, true}) {
    Either plain = same_on_all_ranks(Either());
    DistributedDataParallel ddp(
        same_on_all_ranks(Either()), world.group(),
        {.gradient_as_bucket_view = is_view, .find_unused_parameters = true});
    for (int step = 0; step < 4; ++step) {
      const at::Tensor input = some_input(world.rank(), step, {4, 2});
      const bool is_left = (world.rank() + step) % 2 == 0;
      ddp(input, is_left).pow(2).sum().backward();
      plain->forward(input, is_left).pow(2).sum().backward();
      for (std::size_t i = 0; i < plain->parameters().size(); ++i) {
        at::Tensor& mine = plain->parameters()[i].mutable_grad();
        const at::Tensor theirs = ddp.module()->parameters()[i].grad();
        if (world.size() == 1 && !mine.defined()) continue;
        mine = average_of(world, mine, theirs);
        expect_close(theirs, mine, "gradients that stay");
      }
    }
  }
}

// A rank whose output depends on no parameter gives zeros.
RANK_TEST(TorchDdp, ARankMayUseNoParameter) {
  DistributedDataParallel ddp(std::make_shared<OptionalImpl>(), world.group(),
                              {.find_unused_parameters = true});
  const bool is_last = world.rank() + 1 == world.size();
  for (int step = 0; step < 4; ++step) {
    for (at::Tensor& each : ddp.module()->parameters()) each.mutable_grad().reset();
    const bool is_used = !is_last || step % 2 == 1;
    const at::Tensor input = at::ones({2, 2}).requires_grad_();
    ddp(input, is_used).sum().backward();
    const int users = is_used || world.size() > 1 ? world.size() - (step % 2 == 1 ? 0 : 1) : 0;
    const at::Tensor bias = ddp.module()->one->bias.grad();
    if (users == 0) {
      EXPECT_FALSE(bias.defined());
    } else {
      expect_close(bias, at::full({2}, 2.0 * users / world.size()), "bias");
    }
  }
}

RANK_TEST(TorchDdp, OutputsThatAreLeaves) {
  const auto net = std::make_shared<WithLeafImpl>();
  DistributedDataParallel ddp(net, world.group(), {.find_unused_parameters = true});
  for (int step = 0; step < 3; ++step) {
    const auto [out, leaf] = ddp(at::ones({2, 2}));
    out.sum().backward();
    EXPECT_TRUE(leaf.requires_grad());
  }
}

RANK_TEST(TorchDdp, BuffersAreThoseOfTheFirstRank) {
  const nn::BatchNorm1d norm(6);
  const nn::Sequential net(nn::Linear(4, 6), norm, nn::Linear(6, 1));
  DistributedDataParallel ddp(same_on_all_ranks(net), world.group());
  const at::Tensor mean = norm->running_mean;
  for (int step = 0; step < 3; ++step) {
    ddp(some_input(world.rank(), step, {5, 4})).sum().backward();
    expect_same_on_all_ranks(world, mean, "running_mean");
    EXPECT_GT(mean.abs().sum().item<double>(), 0);
  }
}

// What a program keeps of gradients stays readable when buckets are made anew, and without the
// wrapper.
RANK_TEST(TorchDdp, ViewsOutliveTheWrapper) {
  nn::Sequential net = small_net();
  std::vector<at::Tensor> kept;
  {
    DistributedDataParallel ddp(
        net, world.group(),
        {.first_bucket_bytes = 1, .bucket_bytes = 1, .gradient_as_bucket_view = true});
    for (int step = 0; step < 3; ++step) {
      ddp(some_input(world.rank(), step, {3, 4})).sum().backward();
      for (const at::Tensor& each : net->parameters()) kept.push_back(each.grad());
    }
  }
  for (const at::Tensor& each : kept) EXPECT_TRUE(at::isfinite(each).all().item<bool>());
  // Autograd still adds to them.
  net->forward(some_input(world.rank(), 4, {3, 4})).sum().backward();
}

RANK_TEST(TorchDdp, AveragesStayInBucketsUnlessCopiesAreWanted) {
  for (const bool is_view : {true, false}) {
    DdpOptions options;
    EXPECT_TRUE(options.gradient_as_bucket_view);
    options.gradient_as_bucket_view = is_view;
    DistributedDataParallel ddp(small_net(), world.group(), options);
    at::Tensor kept;
    at::Tensor values;
    for (int step = 0; step < 4; ++step) {
      for (at::Tensor& each : ddp.module()->parameters()) each.mutable_grad().reset();
      ddp(some_input(world.rank(), step, {3, 4})).sum().backward();
      if (step != 2) continue;  // buckets are made anew after the first
      kept = ddp.module()->parameters()[0].grad();
      values = kept.clone();
    }
    EXPECT_EQ(at::equal(kept, values), !is_view);
    EXPECT_EQ(kept.is_same(ddp.module()->parameters()[0].grad()), is_view);
  }
}

RANK_TEST(TorchDdp, JoinsWithUnevenInputs) {
  for (const auto divisor : {hymnJoinDivisorInitial, hymnJoinDivisorActive}) {
    nn::Sequential net(nn::Linear(4, 6), nn::BatchNorm1d(6), nn::Linear(6, 1));
    DistributedDataParallel ddp(same_on_all_ranks(net), world.group());
    ::torch::optim::SGD optimizer(net->parameters(), 0.1);
    const int inputs = world.rank() + 1;
    hymn::torch::join(
        ddp,
        [&] {
          for (int step = 0; step < inputs; ++step) {
            optimizer.zero_grad();
            ddp(some_input(world.rank(), step, {5, 4})).sum().backward();
            const double active = world.size() - step;
            const double by = divisor == hymnJoinDivisorActive ? active : world.size();
            // d(sum of outputs)/d(last bias) is the number of rows.
            EXPECT_NEAR(net->ptr<nn::LinearImpl>(2)->bias.grad().item<double>(), 5 * active / by,
                        1e-5);
            optimizer.step();
          }
        },
        divisor);
    for (const at::Tensor& each : net->parameters())
      expect_same_on_all_ranks(world, each, "a parameter after the join");
    for (const at::Tensor& each : net->buffers())
      expect_same_on_all_ranks(world, each, "a buffer after the join");
  }
}

/// A table of 5 words, and what one sentence makes of it.
RANK_TEST(SparseCollective, test_ddp_set_sparse_metadata) {
  constexpr std::int64_t vocabulary = 5;
  const nn::EmbeddingOptions options = nn::EmbeddingOptions(vocabulary, 10).sparse(true);
  DistributedDataParallel ddp(nn::Embedding(options), world.group());
  ddp.set_sparse_metadata({{"weight", at::arange(vocabulary)}});
  const at::Tensor sentence = at::tensor({1, 0, 0, 0, 0, 0, 0, 0, 0}, at::kLong).view({3, 3});
  ddp(sentence).sum().backward();
  const at::Tensor gradient = ddp.module()->weight.grad();
  EXPECT_TRUE(at::equal(gradient.indices(), at::arange(vocabulary).view({1, vocabulary})));
  EXPECT_TRUE(
      at::equal(gradient.values().select(1, 0), at::tensor({8.0f, 1.0f, 0.0f, 0.0f, 0.0f})));
  EXPECT_THROW(ddp.set_sparse_metadata({{"weights", at::arange(vocabulary)}}), hymn::torch::Error);
}

RANK_TEST(TorchDdp, SparseGradients) {
  for (const bool is_view : {false, true}) {
    WordNet plain = same_on_all_ranks(WordNet());
    DistributedDataParallel ddp(
        same_on_all_ranks(WordNet()), world.group(),
        {.gradient_as_bucket_view = is_view, .find_unused_parameters = true});
    for (int step = 0; step < 3; ++step) {
      // Words that ranks have in common, and others; some twice; in the last step none.
      const at::Tensor words = step == 2
                                   ? at::empty({0}, at::kLong)
                                   : at::tensor({1, world.rank() + 2, 1, 9 - step}, at::kLong);
      for (at::Tensor& each : ddp.module()->parameters()) each.mutable_grad().reset();
      for (at::Tensor& each : plain->parameters()) each.mutable_grad().reset();
      ddp(words).pow(2).sum().backward();
      plain->forward(words).pow(2).sum().backward();
      const at::Tensor mine = ddp.module()->words->weight.grad();
      ASSERT_TRUE(mine.is_sparse());
      EXPECT_TRUE(mine.is_coalesced());
      const at::Tensor local = plain->words->weight.grad();
      expect_close(mine.to_dense(), average_of(world, local.to_dense(), plain->words->weight),
                   "words");
      expect_close(ddp.module()->out->weight.grad(),
                   average_of(world, plain->out->weight.grad(), plain->out->weight), "out");
    }
  }
}

}  // namespace
}  // namespace hymn::test
