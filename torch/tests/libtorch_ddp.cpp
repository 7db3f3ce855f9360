// A program of C++ that trains with the libtorch of a wheel, by hymn/torch.hpp: test_libtorch.py.
#include <torch/torch.h>

#include <cstdio>
#include <vector>

#include "hymn/torch.hpp"

namespace {

struct NetImpl : torch::nn::Module {
  NetImpl() {
    words = register_module("words",
                            torch::nn::Embedding(torch::nn::EmbeddingOptions(8, 4).sparse(true)));
    hidden = register_module("hidden", torch::nn::Linear(4, 8));
    out = register_module("out", torch::nn::Linear(8, 2));
    unused = register_module("unused", torch::nn::Linear(2, 2));
  }
  at::Tensor forward(const at::Tensor& numbers) {
    return out(torch::relu(hidden(words(numbers).sum(0))));
  }
  torch::nn::Embedding words{nullptr};
  torch::nn::Linear hidden{nullptr}, out{nullptr}, unused{nullptr};
};
TORCH_MODULE(Net);

Net make_net() {
  Net net;
  torch::NoGradGuard no_grad;
  int i = 0;
  for (at::Tensor& each : net->parameters())
    each.copy_(torch::arange(each.numel()).reshape(each.sizes()).mul(0.1 * ++i).sin());
  return net;
}

at::Tensor dense(const at::Tensor& gradient) {
  return gradient.is_sparse() ? gradient.to_dense() : gradient;
}

/// Whether the wrapper's gradients are the averages of those of an equal net.
bool trains(hymnGroup_t group, int rank, int size, bool is_view) {
  Net plain = make_net();
  hymn::torch::DdpOptions options;
  options.gradient_as_bucket_view = is_view;
  options.find_unused_parameters = true;
  hymn::torch::DistributedDataParallel<Net> ddp(make_net(), group, options);
  for (int step = 0; step < 3; ++step) {
    const at::Tensor words = torch::tensor({rank + 1, step, 1}, torch::kLong);
    for (at::Tensor& each : ddp.module()->parameters()) each.mutable_grad().reset();
    for (at::Tensor& each : plain->parameters()) each.mutable_grad().reset();
    ddp(words).pow(2).sum().backward();
    plain->forward(words).pow(2).sum().backward();
    for (const auto& item : ddp.module()->named_parameters()) {
      at::Tensor average = plain->named_parameters()[item.key()].grad();
      if (average.defined() != item.value().grad().defined()) return false;
      if (!average.defined()) continue;
      average = dense(average).clone();
      hymn::torch::all_reduce(average, group);
      if (!torch::allclose(dense(item.value().grad()), average / size)) return false;
    }
  }
  return true;
}

hymnResult_t rank_main(hymnWorld_t world, void*) {
  hymnGroup_t group = nullptr;
  int rank = 0, size = 0;
  hymn::torch::check(hymnWorldGroup(world, &group));
  hymn::torch::check(hymnWorldRank(world, &rank));
  hymn::torch::check(hymnWorldSize(world, &size));
  try {
    if (trains(group, rank, size, false) && trains(group, rank, size, true)) return hymnSuccess;
    std::fprintf(stderr, "rank %d: the gradients are no averages\n", rank);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
  }
  return hymnInternalError;
}

}  // namespace

int main() {
  for (const int ranks : {1, 2, 3})
    if (hymnThreadsRun(ranks, rank_main, nullptr, nullptr) != hymnSuccess) {
      std::fprintf(stderr, "%s\n", hymnGetLastError());
      return 1;
    }
  return 0;
}
