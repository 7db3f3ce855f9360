// Ranks that are not equally far become so.
#include "tests/training/torch/small_net.hpp"
#include "tests/training/torch/torch_rank_test.hpp"

namespace hymn::test {
namespace {

namespace optim = ::torch::optim;

/// A net that trains alone, some of its steps on inputs that differ from rank to rank.
template <class Optimizer>
struct Alone {
  template <class Options>
  explicit Alone(const Options& options) : optimizer(net->parameters(), options) {}

  void step(int seed) {
    optimizer.zero_grad();
    net->forward(some_input(seed, 0, {3, 4})).pow(2).sum().backward();
    optimizer.step();
  }

  ::torch::nn::Sequential net = small_net();
  Optimizer optimizer;
};

/// Rank r has made r % 3 steps; after it all go on as one of those would have that have made most.
template <class Optimizer, class Options>
void go_on_from_furthest(World& world, const Options& options) {
  const int most = std::min(world.size(), 3) - 1;
  Alone<Optimizer> mine(options);
  Alone<Optimizer> furthest(options);
  const int steps = world.rank() % 3;
  for (int i = 0; i < steps; ++i) mine.step(10 * i + world.rank());
  for (int i = 0; i < most; ++i) furthest.step(10 * i + most);
  const at::Tensor place = at::full({2}, steps, at::kLong);
  EXPECT_EQ(hymn::torch::synchronize_from_furthest(world.group(), steps, mine.net, mine.optimizer,
                                                   {place}),
            most);
  EXPECT_TRUE(at::equal(place, at::full({2}, most, at::kLong)));
  for (int i = 0; i < 2; ++i) {  // what the optimizer remembers shows in the steps that follow
    for (std::size_t each = 0; each < mine.net->parameters().size(); ++each)
      EXPECT_TRUE(at::equal(mine.net->parameters()[each], furthest.net->parameters()[each]))
          << "parameter " << each << " after " << i << " steps";
    mine.step(100 + i);
    furthest.step(100 + i);
  }
}

RANK_TEST(TorchRecovery, OptimizersGoOn) {
  go_on_from_furthest<optim::SGD>(world, optim::SGDOptions(0.1));
  go_on_from_furthest<optim::SGD>(world, optim::SGDOptions(0.1).momentum(0.9));
  go_on_from_furthest<optim::Adam>(world, optim::AdamOptions(0.1));
}

RANK_TEST(TorchRecovery, BuffersAreSynchronized) {
  ::torch::nn::BatchNorm1d norm(3);
  optim::SGD optimizer(norm->parameters(), 0.1);
  norm->running_mean.fill_(world.rank());
  hymn::torch::synchronize_from_furthest(world.group(), -world.rank(), norm, optimizer);
  EXPECT_EQ(norm->running_mean[0].item<float>(), 0);
}

}  // namespace
}  // namespace hymn::test
