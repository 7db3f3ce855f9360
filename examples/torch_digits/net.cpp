#include "examples/torch_digits/net.hpp"

#include <cmath>
#include <stdexcept>

namespace digits {

namespace nn = torch::nn;

NetImpl::NetImpl(std::int64_t side, std::int64_t classes) {
  first = register_module("first", nn::Conv2d(nn::Conv2dOptions(1, 8, 3).padding(1)));
  second = register_module("second", nn::Conv2d(nn::Conv2dOptions(8, 16, 3).padding(1)));
  const std::int64_t left = side / 2 / 2;
  last = register_module("last", nn::Linear(16 * left * left, classes));
}

at::Tensor NetImpl::forward(at::Tensor pictures) {
  at::Tensor x = at::max_pool2d(at::relu(first->forward(pictures)), 2);
  x = at::max_pool2d(at::relu(second->forward(x)), 2);
  return last->forward(x.flatten(1));
}

Pictures::Pictures(const uneven::Samples& samples) {
  const auto side = std::lround(std::sqrt(static_cast<double>(samples.features)));
  if (side < 4 || static_cast<std::size_t>(side * side) != samples.features)
    throw std::runtime_error(std::to_string(samples.features) +
                             " features are no square of 4 times 4 or more");
  const auto count = static_cast<std::int64_t>(samples.size());
  // from_blob takes no const memory; nothing here writes to it.
  all_.pictures = at::from_blob(const_cast<float*>(samples.values.data()), {count, 1, side, side});
  all_.labels = at::from_blob(const_cast<std::int32_t*>(samples.labels.data()), {count}, at::kInt)
                    .to(at::kLong);
}

Batch Pictures::batch(const uneven::Deal& deal, int rank, int epoch, std::size_t number) const {
  std::vector<std::int64_t> chosen;
  deal.for_each(rank, epoch, number,
                [&](std::size_t sample) { chosen.push_back(static_cast<std::int64_t>(sample)); });
  const at::Tensor index = at::tensor(chosen, at::kLong);
  return {all_.pictures.index_select(0, index), all_.labels.index_select(0, index)};
}

at::Tensor flat(const Net& net) {
  const c10::NoGradGuard no_grad;
  return nn::utils::parameters_to_vector(net->parameters());
}

double accuracy(Net& net, const Batch& batch) {
  const c10::NoGradGuard no_grad;
  const at::Tensor told = net->forward(batch.pictures).argmax(1);
  return told.eq(batch.labels).to(at::kDouble).mean().item<double>();
}

}  // namespace digits
