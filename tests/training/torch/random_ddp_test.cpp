// Random modules, options and steps against gradients that plain autograd computes.
#include <algorithm>
#include <random>

#include "tests/support/seeds.hpp"
#include "tests/training/torch/torch_rank_test.hpp"
#include "tests/training/torch/toy_modules.hpp"

namespace hymn::test {
namespace {

using namespace toy;  // NOLINT: the modules

using hymn::torch::DdpOptions;
using hymn::torch::DistributedDataParallel;

Paths copy_of(Paths& other) {
  Paths copy(other->layers.size());
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < copy->parameters().size(); ++i)
    copy->parameters()[i].copy_(other->parameters()[i]);
  return copy;
}

/// What all ranks draw alike.
struct Plan {
  explicit Plan(std::uint64_t seed) : engine(seed) {}
  std::size_t up_to(std::size_t most) {
    return std::uniform_int_distribution<std::size_t>(0, most)(engine);
  }
  bool coin() { return up_to(1) == 1; }

  std::mt19937_64 engine;
};

class Trial {
 public:
  Trial(World& world, std::uint64_t seed) : world_(world), plan_(seed), depth_(1 + plan_.up_to(4)) {
    options_.first_bucket_bytes = plan_.coin() ? 1 : 40;
    options_.bucket_bytes = plan_.coin() ? 1 : 100;
    options_.gradient_as_bucket_view = plan_.coin();
    options_.find_unused_parameters = plan_.coin();
    options_.static_graph = !options_.find_unused_parameters && plan_.coin();
  }

  void run() {
    Paths first(depth_);
    Paths plain = copy_of(first);
    DistributedDataParallel ddp(first, world_.group(), options_);
    {
      const c10::NoGradGuard no_grad;
      for (std::size_t i = 0; i < plain->parameters().size(); ++i)
        plain->parameters()[i].copy_(first->parameters()[i]);
    }
    const std::vector<std::size_t> usual = path_of_all();
    for (int step = 0; step < 6; ++step) {
      forget(first, plain);
      const std::size_t held = options_.static_graph ? 0 : plan_.up_to(2);
      for (std::size_t i = 0; i <= held; ++i) {
        const auto path = options_.find_unused_parameters ? own_path() : usual;
        const at::Tensor input = some_input(world_.rank(), 10 * step + static_cast<int>(i), {2, 3});
        plain->forward(input, path).pow(2).sum().backward();
        if (i < held) {
          const auto no_sync = ddp.no_sync();
          ddp(input, path).pow(2).sum().backward();
        } else {
          ddp(input, path).pow(2).sum().backward();
        }
      }
      compare(first, plain, step);
    }
  }

 private:
  /// All layers, some of them twice.
  std::vector<std::size_t> path_of_all() {
    std::vector<std::size_t> path;
    for (std::size_t i = 0; i < depth_; ++i) path.push_back(i);
    std::ranges::shuffle(path, plan_.engine);
    if (plan_.coin()) path.push_back(plan_.up_to(depth_ - 1));
    return path;
  }
  /// Of this rank; all ranks draw for all.
  std::vector<std::size_t> own_path() {
    std::vector<std::size_t> own;
    for (int rank = 0; rank < world_.size(); ++rank) {
      const std::size_t length = 1 + plan_.up_to(depth_ - 1);
      std::vector<std::size_t> path;
      for (std::size_t i = 0; i < length; ++i) path.push_back(plan_.up_to(depth_ - 1));
      if (rank == world_.rank()) own = path;
    }
    return own;
  }
  /// As optimizers do, in one of their ways.
  void forget(Paths& first, Paths& plain) {
    const bool to_none = plan_.coin();
    for (Paths* module : {&first, &plain})
      for (at::Tensor& each : (*module)->parameters())
        if (to_none)
          each.mutable_grad().reset();
        else if (each.grad().defined())
          each.mutable_grad().zero_();
  }
  /// Gradients, which are those of both from now on.
  void compare(Paths& first, Paths& plain, int step) {
    for (const auto& item : first->named_parameters()) {
      at::Tensor& mine = plain->named_parameters()[item.key()].mutable_grad();
      at::Tensor is_used = at::full({1}, mine.defined());
      hymn::torch::all_reduce(is_used, world_.group(), hymnMax);
      const std::string what = item.key() + " in step " + std::to_string(step);
      if (!is_used.item<bool>()) {
        EXPECT_FALSE(item.value().grad().defined()) << what;
        continue;
      }
      const at::Tensor average = average_of(world_, mine, item.value());
      expect_close(item.value().grad(), average, what);
      expect_same_on_all_ranks(world_, item.value().grad(), what);
    }
  }

  World& world_;
  Plan plan_;
  std::size_t depth_;
  DdpOptions options_;
};

RANK_TEST(TorchDdp, RandomSteps) {
  const std::uint64_t first = first_seed();
  const auto cases = std::stoull(word_from("TEST_CASES", "12"));
  for (std::uint64_t seed = first; seed < first + cases; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Trial(world, seed).run();
  }
}

}  // namespace
}  // namespace hymn::test
