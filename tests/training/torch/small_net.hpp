// Modules that begin with the same values on all ranks.
#pragma once

#include "tests/training/torch/torch_rank_test.hpp"

namespace hymn::test {

/// Start values that follow from a formula.
template <class Module>
Module same_on_all_ranks(Module module) {
  int i = 0;
  const c10::NoGradGuard no_grad;
  for (at::Tensor& each : module->parameters())
    each.copy_(some_input(100, i++, each.sizes()) - 0.5);
  return module;
}

inline ::torch::nn::Sequential small_net() {
  namespace nn = ::torch::nn;
  return same_on_all_ranks(
      nn::Sequential(nn::Linear(4, 8), nn::ReLU(), nn::Linear(8, 3), nn::Tanh()));
}

}  // namespace hymn::test
